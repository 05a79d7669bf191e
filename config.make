
# The engine's archive, where nobody has built it before configuring NGINX.

if [ -z "$HYMT_LIB" ]; then
    hymt_engine=$(ls $ngx_addon_dir/engine/*.[ch] \
                     $ngx_addon_dir/engine/*.cc \
                     $ngx_addon_dir/kernels/cpu/*.[ch] 2>/dev/null | tr '\n' ' ')

    cat << END                                            >> $NGX_MAKEFILE

$hymt_lib:	$ngx_addon_dir/Makefile $hymt_engine
	\$(MAKE) -C $ngx_addon_dir lib

END
fi
