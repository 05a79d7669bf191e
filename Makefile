# The one Makefile behind build.sh.  Objects and products go to $(BUILD).
#
#   make            the library, hymt, and the NGINX module
#   make module     the NGINX module alone; NGINX_SRC is the tree it is for:
#                   Debian's nginx-dev (the default), or any of NGINX's sources
#   make unit       the unit tests' programs, plain
#   make unit-san   the same with address and undefined-behaviour sanitizers
#   make bench      the programs of bench/, each with --help
#   make cuda       hymt_cuda.so, the CUDA backend; part of "make" where nvcc is
#   make gpu        the programs of t/gpu and bench that need a GPU
#   make fuzz       the fuzzers in t/fuzz, with clang: CC=clang and a BUILD apart

BUILD   ?= build
CC      ?= gcc
CFLAGS  ?= -O2 -g
LIBXML2 ?= /usr/include/libxml2

# SANITIZE=1, with a BUILD apart: the library and the module for an NGINX that is
# started with libasan and libubsan preloaded.  Not the kernels of cpu/, which
# the unit tests see to: with them a text takes seconds.
ifdef SANITIZE
override CFLAGS := -O1 -g -fno-omit-frame-pointer \
                   -fsanitize=address,undefined -fno-sanitize-recover=undefined
endif
WARN    := -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror
FLAGS   := $(CFLAGS) $(WARN) -fPIC -fno-plt -fvisibility=hidden -pthread \
           -ffunction-sections -Iengine -I$(LIBXML2)
LIBS    := -ljansson -lpcre2-8 -lutf8proc -lcld2 -licuuc -lexpat -lxml2 -lm \
           -lpthread
SAN     := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all \
           -fno-omit-frame-pointer

# detect_cld2.cc alone: CLD2 has a C++ interface only
ifeq ($(origin CXX),default)
CXX     := $(if $(findstring clang,$(CC)),clang++,g++)
endif
CXX_FLAGS := $(CFLAGS) -std=c++17 -Wall -Wextra -Werror -fPIC \
             -fvisibility=hidden -pthread -Iengine -fno-exceptions -fno-rtti \
             -fno-threadsafe-statics

BUILD_ID := $(shell cat engine/*.[ch] engine/*.cc kernels/cpu/*.[ch] \
              2>/dev/null | cksum | cut -d' ' -f1)

LIB_SRCS  := $(sort $(wildcard engine/*.c kernels/cpu/*.c))
LIB_NAMES := $(basename $(LIB_SRCS) $(sort $(wildcard engine/*.cc)))
LIB_OBJS  := $(LIB_NAMES:%=$(BUILD)/obj/%.o)
SAN_OBJS  := $(LIB_NAMES:%=$(BUILD)/san/%.o)
TOOL_SRCS := $(sort $(wildcard tools/hymt*.c))
TOOL_OBJS := $(TOOL_SRCS:%.c=$(BUILD)/obj/%.o)
UNIT_SRCS := $(sort $(wildcard t/unit/*_test.c))
UNIT      := $(UNIT_SRCS:t/unit/%.c=$(BUILD)/unit/%)
BENCH     := $(patsubst bench/%.c,$(BUILD)/bench/%, \
               $(filter-out bench/cuda_%,$(wildcard bench/*.c))) \
             $(BUILD)/bench/http-load $(BUILD)/bench/random-model
UNIT_SAN  := $(UNIT_SRCS:t/unit/%.c=$(BUILD)/unit-san/%)
FUZZ_SRCS := $(sort $(wildcard t/fuzz/*.c))
FUZZ      := $(FUZZ_SRCS:t/fuzz/%.c=$(BUILD)/bin/%)
FUZZ_OBJS := $(LIB_NAMES:%=$(BUILD)/cov/%.o)

# CUDA=0: not built; 1: an error without nvcc; a path: of the toolkit; else
# where nvcc is found.  CUDA_ARCHS: the devices that machine code is made for.

CUDA       ?=
CUDA_ARCHS ?= 80 86 89 90a

ifeq ($(CUDA),0)
NVCC :=
else ifneq ($(filter /%,$(CUDA)),)
NVCC := $(CUDA)/bin/nvcc
else
NVCC := $(firstword $(shell command -v nvcc) \
                    $(wildcard /usr/local/cuda/bin/nvcc))
endif

ifeq ($(NVCC),)
ifneq ($(filter-out 0,$(CUDA)),)
$(error CUDA=$(CUDA): there is no nvcc in PATH or /usr/local/cuda/bin)
endif
else
CUDA_HOME := $(abspath $(dir $(realpath $(shell command -v $(NVCC))))/..)
endif

.PHONY: all lib hymt module cuda gpu unit unit-san bench fuzz clean FORCE

all: lib hymt module $(if $(NVCC),cuda)

lib: $(BUILD)/libhymt.a

hymt: $(BUILD)/hymt

# one source per instruction set; the kernel table picks at run time
ifeq ($(shell $(CC) -dumpmachine | cut -d- -f1),x86_64)
isa = $(if $(findstring _avx512,$1),-mavx512f -mavx512bw -mavx512vl -mavx512dq \
-mfma -mf16c,$(if $(findstring _avx2,$1),-mavx2 -mfma -mf16c,))
endif

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -DHYMT_BUILD_ID='"$(BUILD_ID)"' $(call isa,$<) -MMD -MP \
	    -c $< -o $@

$(BUILD)/san/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(SAN) -DHYMT_BUILD_ID='"$(BUILD_ID)"' $(call isa,$<) \
	    -MMD -MP -c $< -o $@

$(BUILD)/obj/%.o: %.cc
	@mkdir -p $(@D)
	$(CXX) $(CXX_FLAGS) -MMD -MP -c $< -o $@

$(BUILD)/san/%.o: %.cc
	@mkdir -p $(@D)
	$(CXX) $(CXX_FLAGS) $(SAN) -fno-sanitize=vptr -MMD -MP -c $< -o $@

$(BUILD)/libhymt.a: $(LIB_OBJS)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/libhymt-san.a: $(SAN_OBJS)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/hymt: $(TOOL_OBJS) $(BUILD)/libhymt.a
	$(CC) $(FLAGS) $^ $(LIBS) -o $@

# objects that name the build are made again when its name changes

$(BUILD)/build-id: FORCE
	@mkdir -p $(@D)
	@echo '$(BUILD_ID)' | cmp -s - $@ || echo '$(BUILD_ID)' > $@

BUILD_ID_OBJS := engine/backend kernels/cpu/backend_cpu kernels/cpu/ref

$(BUILD_ID_OBJS:%=$(BUILD)/obj/%.o) $(BUILD_ID_OBJS:%=$(BUILD)/san/%.o) \
$(BUILD_ID_OBJS:%=$(BUILD)/cov/%.o): $(BUILD)/build-id

# The CUDA backend, a shared object with one symbol.  What it needs of the
# engine is linked in once more, hidden: functions without state that read
# tensors and start threads.  The runtime is linked in, too, and looks for the
# driver when it is first called: without one that call fails, nothing else.

CUDA_DIR    := $(BUILD)/cuda
CUDA_ENGINE := engine/base.c engine/batch_check.c engine/claim.c engine/file.c \
               engine/process.c engine/tensor.c engine/thread.c
CUDA_C      := $(sort $(wildcard kernels/cuda/*.c)) $(CUDA_ENGINE)
CUDA_CU     := $(sort $(wildcard kernels/cuda/*.cu))
CUDA_OBJS   := $(CUDA_C:%.c=$(CUDA_DIR)/%.o) $(CUDA_CU:%.cu=$(CUDA_DIR)/%.cu.o)
CUDA_FLAGS  := $(FLAGS) -fdata-sections \
               -isystem $(CUDA_HOME)/include
CUDA_PTX    := -gencode arch=compute_80,code=compute_80
NVCC_FLAGS  := -O3 -std=c++17 -lineinfo -Ikernels/cuda \
               -Xcompiler -fPIC,-fvisibility=hidden \
               $(foreach a,$(CUDA_ARCHS), \
                 -gencode arch=compute_$(a),code=sm_$(a)) \
               $(if $(filter 80,$(CUDA_ARCHS)),$(CUDA_PTX))
CUDA_LIBS   := $(firstword $(wildcard $(CUDA_HOME)/lib64/libcudart_static.a \
                 $(CUDA_HOME)/targets/*/lib/libcudart_static.a)) \
               -lm -lpthread -ldl -lrt

cuda: $(BUILD)/hymt_cuda.so

$(CUDA_DIR)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(NVCC) $(NVCC_FLAGS)' | cmp -s - $@ \
	    || echo '$(NVCC) $(NVCC_FLAGS)' > $@

$(CUDA_DIR)/%.cu.o: %.cu $(CUDA_DIR)/flags
	@mkdir -p $(@D)
	$(NVCC) $(NVCC_FLAGS) -MMD -MF $(@:.o=.d) -MT $@ -c $< -o $@

$(CUDA_DIR)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CUDA_FLAGS) -Ikernels/cuda -DHYMT_BUILD_ID='"$(BUILD_ID)"' \
	    -MMD -MP -c $< -o $@

$(CUDA_DIR)/kernels/cuda/backend_cuda.o: $(BUILD)/build-id

$(CUDA_DIR)/map: Makefile
	@mkdir -p $(@D)
	@echo '{ global: hymt_backend_cuda_ops; local: *; };' > $@

# put in place by a rename, as the module is
$(BUILD)/hymt_cuda.so: $(CUDA_OBJS) $(CUDA_DIR)/map
	$(CXX) -shared -static-libstdc++ -static-libgcc $(CUDA_OBJS) \
	    $(CUDA_LIBS) -o $@.new \
	    -Wl,--version-script=$(CUDA_DIR)/map -Wl,--exclude-libs,ALL \
	    -Wl,--gc-sections -Wl,--no-undefined -Wl,-z,relro -Wl,-z,now \
	    -Wl,-z,nodelete
	@mv $@.new $@

# Tests and benches on a GPU.  Those of one kernel are CUDA and link the
# kernels; those of the backend are C and open the shared object.

GPU_CU   := $(patsubst t/gpu/%.cu,$(BUILD)/gpu/%,$(wildcard t/gpu/*_test.cu))
GPU_C    := $(patsubst t/gpu/%.c,$(BUILD)/gpu/%,$(wildcard t/gpu/*_test.c))
GPU_BENCH := $(patsubst bench/%.cu,$(BUILD)/gpu/%,$(wildcard bench/cuda_*.cu)) \
             $(patsubst bench/%.c,$(BUILD)/gpu/%,$(wildcard bench/cuda_*.c))

# a profiler, where the toolkit has CUPTI's headers
GPU_PROFILE := $(if $(NVCC),$(if $(wildcard $(CUDA_HOME)/include/cupti.h), \
                 $(BUILD)/gpu/cuda_profile.so))

gpu: cuda $(GPU_CU) $(GPU_C) $(GPU_BENCH) $(GPU_PROFILE)

$(BUILD)/gpu/cuda_profile.so: tools/cuda-profile.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(WARN) -fPIC -fvisibility=hidden -shared -pthread \
	    -isystem $(CUDA_HOME)/include $< -ldl -o $@

$(BUILD)/libhymt_cuda.a: $(CUDA_OBJS)
	@rm -f $@
	$(AR) rcs $@ $^

$(GPU_CU): $(BUILD)/gpu/%: t/gpu/%.cu $(BUILD)/libhymt_cuda.a \
    $(BUILD)/libhymt.a $(wildcard t/gpu/*.h t/gpu/*.cuh) t/unit/tap.h
	@mkdir -p $(@D)
	$(NVCC) $(NVCC_FLAGS) -It/unit -It/gpu -Iengine -Ikernels/cpu \
	    -Xlinker --gc-sections,--as-needed $< $(BUILD)/libhymt_cuda.a \
	    $(BUILD)/libhymt.a $(LIBS) -o $@

$(BUILD)/gpu/cuda_%: bench/cuda_%.cu $(BUILD)/libhymt_cuda.a \
    $(BUILD)/libhymt.a $(wildcard bench/*.cuh)
	@mkdir -p $(@D)
	$(NVCC) $(NVCC_FLAGS) -It/unit -Iengine -Ikernels/cpu \
	    -Xlinker --gc-sections,--as-needed $< $(BUILD)/libhymt_cuda.a \
	    $(BUILD)/libhymt.a $(LIBS) -lcublasLt -o $@

$(GPU_C): $(BUILD)/gpu/%: t/gpu/%.c $(BUILD)/libhymt.a
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -Ikernels/cpu -It/unit -MMD -MF $@.d -MP $< \
	    -Wl,--as-needed $(BUILD)/libhymt.a $(LIBS) -o $@

$(BUILD)/gpu/cuda_%: bench/cuda_%.c $(BUILD)/libhymt.a
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -Ikernels/cpu -It/unit $< -Wl,--as-needed \
	    $(BUILD)/libhymt.a $(LIBS) -o $@

# The module: NGINX's own build, run in a folder of links to its tree, so that
# the tree stays as it is and no path of ours meets configure's quoting.

NGINX_SRC   ?= /usr/share/nginx/src
NGINX_FLAGS ?= --with-compat --with-threads
NGINX_DIR   := $(BUILD)/nginx

NGINX_CC_OPT := $(CFLAGS) -fPIC -fno-plt -ffunction-sections \
                -fstack-protector-strong \
                -D_FORTIFY_SOURCE=2 -Wformat -Wformat-security
NGINX_LD_OPT := -Wl,-z,relro -Wl,-z,now

ifdef SANITIZE
NGINX_CC_OPT := $(CFLAGS) -fPIC
NGINX_LD_OPT := -fsanitize=address,undefined
CXX_FLAGS    += -fno-sanitize=vptr

$(BUILD)/obj/kernels/cpu/%.o: FLAGS += -O2 -fno-sanitize=all
endif

# put in place by a rename: an NGINX that runs from the old file keeps it
module: $(NGINX_DIR)/objs/Makefile $(BUILD)/libhymt.a
	+$(MAKE) -C $(NGINX_DIR) -f objs/Makefile modules
	@cmp -s $(NGINX_DIR)/objs/ngx_http_hymt_module.so \
	    $(BUILD)/ngx_http_hymt_module.so \
	    || { cp $(NGINX_DIR)/objs/ngx_http_hymt_module.so $(BUILD)/new.so \
	         && mv $(BUILD)/new.so $(BUILD)/ngx_http_hymt_module.so; }

$(NGINX_DIR)/objs/Makefile: config config.make http/layout.txt \
                              $(BUILD)/nginx.inputs
	@rm -rf $(NGINX_DIR)
	@mkdir -p $(NGINX_DIR)
	@cd $(NGINX_DIR) && \
	for i in auto configure conf conf_flags contrib man src; do \
	    if [ -e "$(NGINX_SRC)/$$i" ]; then ln -s "$(NGINX_SRC)/$$i" .; fi; \
	done
	@ln -s "$(CURDIR)" $(NGINX_DIR)/hymt
	cd $(NGINX_DIR) && bash -c 'NGX_CONF_FLAGS=($(NGINX_FLAGS)); \
	    if [ -e conf_flags ]; then . ./conf_flags; fi; \
	    configure=configure; [ -e configure ] || configure=auto/configure; \
	    HYMT_LIB=../libhymt.a sh $$configure "$${NGX_CONF_FLAGS[@]}" \
	        --with-cc="$(CC)" --with-cc-opt="$(NGINX_CC_OPT)" \
	        --with-ld-opt="$(NGINX_LD_OPT)" --add-dynamic-module=hymt'

# what, once changed, asks for configuring anew: sources come and go, a package
# upgrade changes headers under an old date
$(BUILD)/nginx.inputs: FORCE
	@mkdir -p $(@D)
	@[ -e "$(NGINX_SRC)/src/core/nginx.h" ] || { \
	    echo "no NGINX sources in $(NGINX_SRC): apt-get install nginx-dev," \
	         "or NGINX_SRC=/path/to/nginx" >&2; exit 1; }
	@{ echo '$(NGINX_SRC) $(NGINX_FLAGS) $(CC) $(NGINX_CC_OPT)'; \
	   echo '$(sort $(wildcard *.[ch] http/*.[ch] engine/*.h))'; \
	   ls -lLR "$(NGINX_SRC)/src"; } > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

FORCE:

unit: $(UNIT)

unit-san: $(UNIT_SAN)

$(BUILD)/unit/%: t/unit/%.c $(BUILD)/libhymt.a
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -Ikernels/cpu -It/unit -MMD -MF $@.d -MP $< \
	    $(BUILD)/libhymt.a $(LIBS) -o $@

$(BUILD)/unit-san/%: t/unit/%.c $(BUILD)/libhymt-san.a
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(SAN) -Ikernels/cpu -It/unit -MMD -MF $@.d -MP $< \
	    $(BUILD)/libhymt-san.a $(LIBS) -o $@

# for tools/tokenizer-vectors.py

$(BUILD)/tokenize-lines: tools/tokenize-lines.c $(BUILD)/libhymt.a
	$(CC) $(FLAGS) $^ $(LIBS) -o $@

bench: $(BENCH)

$(BUILD)/bench/%: bench/%.c $(BUILD)/libhymt.a
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -Ikernels/cpu $< $(BUILD)/libhymt.a $(LIBS) -o $@

$(BUILD)/bench/http-load: $(wildcard bench/http-load/*) $(BUILD)/libhymt.a
$(BUILD)/bench/random-model: $(wildcard bench/random-model/*) \
    $(BUILD)/libhymt.a

$(BUILD)/bench/http-load $(BUILD)/bench/random-model:
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(filter %.c,$^) $(BUILD)/libhymt.a $(LIBS) -o $@

fuzz: $(FUZZ)

$(BUILD)/cov/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(SAN) -fsanitize=fuzzer-no-link \
	    -DHYMT_BUILD_ID='"$(BUILD_ID)"' $(call isa,$<) -MMD -MP -c $< -o $@

$(BUILD)/cov/%.o: %.cc
	@mkdir -p $(@D)
	$(CXX) $(CXX_FLAGS) $(SAN) -fno-sanitize=vptr \
	    -fsanitize=fuzzer-no-link -MMD -MP -c $< -o $@

$(BUILD)/bin/%: t/fuzz/%.c $(FUZZ_OBJS)
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(SAN) -fsanitize=fuzzer $^ $(LIBS) -o $@

clean:
	rm -rf $(BUILD) t/servroot t/servroot-*

-include $(LIB_OBJS:.o=.d) $(SAN_OBJS:.o=.d) $(FUZZ_OBJS:.o=.d)
-include $(CUDA_C:%.c=$(CUDA_DIR)/%.d) $(CUDA_CU:%.cu=$(CUDA_DIR)/%.cu.d)
-include $(UNIT:%=%.d) $(UNIT_SAN:%=%.d) $(TOOL_OBJS:.o=.d) $(GPU_C:%=%.d)
