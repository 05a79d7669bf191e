# The one Makefile behind build.sh.  Objects and products go to $(BUILD).
#
#   make            the library, hymt, and the NGINX module
#   make unit       the unit tests' programs, plain
#   make unit-san   the same with address and undefined-behaviour sanitizers

BUILD   ?= build
CC      ?= gcc
CFLAGS  ?= -O2 -g
WARN    := -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror
FLAGS   := $(CFLAGS) $(WARN) -fPIC -fvisibility=hidden -pthread -Iengine
LIBS    := -ljansson -lpcre2-8 -lutf8proc -lm -lpthread
SAN     := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all \
           -fno-omit-frame-pointer

BUILD_ID := $(shell cat engine/*.[ch] kernels/cpu/*.[ch] 2>/dev/null \
              | cksum | cut -d' ' -f1)

LIB_SRCS  := $(sort $(wildcard engine/*.c kernels/cpu/*.c))
LIB_OBJS  := $(LIB_SRCS:%.c=$(BUILD)/obj/%.o)
SAN_OBJS  := $(LIB_SRCS:%.c=$(BUILD)/san/%.o)
UNIT_SRCS := $(sort $(wildcard t/unit/*_test.c))
UNIT      := $(UNIT_SRCS:t/unit/%.c=$(BUILD)/unit/%)
UNIT_SAN  := $(UNIT_SRCS:t/unit/%.c=$(BUILD)/unit-san/%)

.PHONY: all lib hymt unit unit-san clean

all: lib hymt

lib: $(BUILD)/libhymt.a

hymt: $(BUILD)/hymt

# one source per instruction set; the kernel table picks at run time
isa = $(if $(findstring _avx512,$1),-mavx512f -mavx512bw -mavx512vl -mavx512dq \
-mfma -mf16c,$(if $(findstring _avx2,$1),-mavx2 -mfma -mf16c,))

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -DHYMT_BUILD_ID='"$(BUILD_ID)"' $(call isa,$<) -MMD -MP \
	    -c $< -o $@

$(BUILD)/san/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(SAN) -DHYMT_BUILD_ID='"$(BUILD_ID)"' $(call isa,$<) \
	    -MMD -MP -c $< -o $@

$(BUILD)/libhymt.a: $(LIB_OBJS)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/libhymt-san.a: $(SAN_OBJS)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/hymt: tools/hymt.c $(BUILD)/libhymt.a
	$(CC) $(FLAGS) -MMD -MP $< $(BUILD)/libhymt.a $(LIBS) -o $@

unit: $(UNIT)

unit-san: $(UNIT_SAN)

$(BUILD)/unit/%: t/unit/%.c t/unit/tap.h $(BUILD)/libhymt.a
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -It/unit $< $(BUILD)/libhymt.a $(LIBS) -o $@

$(BUILD)/unit-san/%: t/unit/%.c t/unit/tap.h $(BUILD)/libhymt-san.a
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(SAN) -It/unit $< $(BUILD)/libhymt-san.a $(LIBS) -o $@

clean:
	rm -rf $(BUILD)

-include $(LIB_OBJS:.o=.d) $(SAN_OBJS:.o=.d)
