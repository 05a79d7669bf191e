/*
 * cuda_gemm - the GEMM family: each product of a layer alone, all four in a
 * chain, and the head; own kernels beside cublasLt.
 *
 * Weights rotate past the L2, launches are timed as one CUDA graph, times are
 * medians.  The ceilings, reading memory and multiplying matrices, are
 * measured in the same run.  Ways to cut a product are tried, their bits
 * compared with the plain kernel's; "tune" tries them in the chain, too, and
 * prints the rows of gemm_table.h.  "table": what the backend launches, alone.
 */

#include "cuda_gemm_ways.cuh"


static const product_t  small[] = {
    { "qkv", 3072, 2048, HYMT_GEMM_STORE },
    { "o", 2048, 2048, HYMT_GEMM_STORE },
    { "gate_up", 12288, 2048, HYMT_GEMM_SILU },
    { "down", 2048, 6144, HYMT_GEMM_STORE },
    { "head", 120832, 2048, HYMT_GEMM_STORE },
};

static const product_t  large[] = {
    { "qkv", 6144, 4096, HYMT_GEMM_STORE },
    { "o", 4096, 4096, HYMT_GEMM_STORE },
    { "gate_up", 28672, 4096, HYMT_GEMM_SILU },
    { "down", 4096, 14336, HYMT_GEMM_STORE },
    { "head", 128256, 4096, HYMT_GEMM_STORE },
};

static const uint32_t  row_counts[] = { 1, 8, 16, 32, 48, 64, 96, 128,
                                        192, 256, 384, 512, 640, 768, 1024,
                                        1536, 2048 };


static double  read_rate, matmul_rate;    /* bytes, operations a us */


static __global__ void
k_read(const uint4 *p, size_t n, uint32_t *sink)
{
    const size_t  step = (size_t) gridDim.x * blockDim.x;
    uint4         v[4];
    uint32_t      sum = 0;

    for (size_t i = (size_t) blockIdx.x * blockDim.x + threadIdx.x;
         i + 3 * step < n; i += 4 * step)
    {
        for (int j = 0; j < 4; j++) {
            v[j] = __ldcs(p + i + j * step);
        }

        for (int j = 0; j < 4; j++) {
            sum ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
        }
    }

    if (sum == 0x12345678) {
        *sink = sum;
    }
}


/*
 * What the backend launches: each product alone and all four in a chain, as
 * hymt_gemm_create() chooses, beside cublasLt's first proposal.
 */
static void
time_table(const product_t *ps, uint32_t m, uint32_t layers)
{
    char                       err[256];
    double                     us, bytes = 0, flops = 0, floor_us;
    size_t                     at = 0;
    hymt_gemm_plan_t           lt[4];
    std::vector<hymt_gemm_t *>  gemms;

    for (uint32_t i = 0; i < layers * 4; i++) {
        hymt_gemm_t        *gemm;
        const product_t    *p = &ps[i % 4];
        hymt_gemm_shape_t   s;

        if (at + (size_t) p->n * p->k > WEIGHTS / 2) {
            at = 0;
        }

        s = shape_of(p, at);
        s.y = y + (i % 2) * (y_bytes / 2);
        at += (size_t) p->n * p->k;

        if (hymt_gemm_create(&dev, &s, &gemm, err, sizeof(err)) != 0) {
            printf("%s\n", err);
            exit(1);
        }

        gemms.push_back(gemm);

        if (i < 4) {
            lt[i].kind = HYMT_GEMM_LT;

            if (hymt_lt_algos(&dev, &s, m, &lt[i].algo, 1) != 1) {
                printf("cublasLt has no algorithm\n");
                exit(1);
            }

            bytes += (double) p->n * p->k * 2 + (double) m * p->k * 2
                     + out_bytes(p, m);
            flops += 2.0 * m * p->n * p->k;
        }
    }

    printf("%5u", m);

    for (int j = 0; j < 4; j++) {
        us = graph_us(ps[j].name, [&] {
            for (uint32_t i = 0; i < layers; i++) {
                CHECK(hymt_gemm_run(gemms[4 * i + j], m, dev.stream));
            }
        });

        printf("  %s %.1f", ps[j].name, us / layers);
    }

    us = graph_us("chain", [&] {
        for (hymt_gemm_t *gemm : gemms) {
            CHECK(hymt_gemm_run(gemm, m, dev.stream));
        }
    });

    floor_us = std::max(bytes / read_rate, flops / matmul_rate);

    printf("  chain %.1f (%.0f %% of %.1f), cublasLt %.1f\n", us / layers,
           100 * floor_us * layers / us, floor_us,
           chain_us(ps, lt, m, layers) / layers);

    for (hymt_gemm_t *gemm : gemms) {
        hymt_gemm_free(gemm);
    }
}


static void
ceilings(void)
{
    double             us;
    hymt_lt_algo_t     algos[HYMT_LT_ALGOS];
    hymt_gemm_shape_t  s;
    uint32_t           n;
    product_t          p = { "square", 8192, 8192, HYMT_GEMM_STORE };

    us = graph_us("read", [&] {
        k_read<<<1056, 512, 0, dev.stream>>>((const uint4 *) weights,
                                             WEIGHTS / 16, differ);
        CHECK(cudaGetLastError());
    });

    read_rate = WEIGHTS / us;

    s = shape_of(&p, 0);
    s.x = weights + ((size_t) 8192 * 8192);
    s.ldy = 8192;
    n = hymt_lt_algos(&dev, &s, 8192, algos, 4);
    matmul_rate = 0;

    for (uint32_t i = 0; i < n; i++) {
        us = graph_us("square", [&] {
            CHECK(hymt_lt_run(&dev, &s, &algos[i], 8192, dev.stream));
        });

        matmul_rate = std::max(matmul_rate, 2.0 * 8192 * 8192 * 8192 / us);
    }

    printf("read %.2f TB/s, matmul 8192^3 %.0f TFLOP/s\n", read_rate / 1e6,
           matmul_rate / 1e6);
}


/* Row of gemm_table.h. */
static void
print_row(const product_t *p, uint32_t m, const hymt_gemm_plan_t *plan)
{
    if (plan->kind != HYMT_GEMM_LT) {
        printf("ROW { %u, %u, %u, HYMT_GEMM_%s, %u, %u, %u, %u, %u, %u },\n",
               p->n, p->k, m,
               plan->kind == HYMT_GEMM_MANY ? "MANY" : "WGMMA", plan->tokens,
               plan->rows, plan->depth, plan->share_x, plan->share_w,
               plan->ring);
        return;
    }

    printf("ROW { %u, %u, %u, HYMT_GEMM_LT, 0, 0, 0, 0, 0, 0, { {", p->n,
           p->k, m);

    for (int i = 0; i < 8; i++) {
        printf(" 0x%llx,", (unsigned long long) plan->algo.data[i]);
    }

    printf(" } } },\n");
}


int
main(int argc, char **argv)
{
    bool              tune = false, seven = false, table = false;
    uint64_t          seed = (uint64_t) time(NULL);
    char              err[256];
    const product_t  *ps;
    cudaDeviceProp    prop;

    std::vector<uint32_t>  wanted;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "tune") == 0) {
            tune = true;

        } else if (strcmp(argv[i], "7b") == 0) {
            seven = true;

        } else if (strcmp(argv[i], "table") == 0) {
            table = true;

        } else {
            wanted.push_back((uint32_t) atoi(argv[i]));
        }
    }

    if (wanted.empty()) {
        wanted.assign(row_counts, row_counts + sizeof(row_counts) / 4);
    }

    ps = seven ? large : small;

    CHECK(cudaSetDevice(0));
    CHECK(cudaGetDeviceProperties(&prop, 0));
    dev.cc = prop.major * 10 + prop.minor;
    dev.sms = (uint32_t) prop.multiProcessorCount;
    dev.smem = (uint32_t) prop.sharedMemPerBlockOptin;
    dev.pdl = dev.cc / 10 == 9;
    dev.workspace_bytes = 64 << 20;
    CHECK(cudaStreamCreateWithFlags(&dev.stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&dev.workspace, dev.workspace_bytes));

    if (hymt_lt_open(&dev, err, sizeof(err)) != 0) {
        printf("%s\n", err);
        return 1;
    }

    CHECK(hymt_gemm_sm90_init(&dev));
    CHECK(hymt_gemm_many_init(&dev));
    CHECK(hymt_gemm_mma_init(&dev));

    y_bytes = 160 << 20;
    CHECK(cudaMalloc(&weights, WEIGHTS));
    CHECK(cudaMalloc(&x, (size_t) ROWS * 14336 * 2));
    CHECK(cudaMalloc(&scratch, (size_t) ROWS * 28672 * 2));
    CHECK(cudaMalloc(&y, y_bytes));
    CHECK(cudaMalloc(&y_ref, y_bytes));
    CHECK(cudaMalloc(&differ, 4));

    CHECK(hymt_gemm_fill(weights, WEIGHTS / 2, seed, 0.05f, dev.stream));
    CHECK(hymt_gemm_fill(x, (size_t) ROWS * 14336, seed + 1, 2.0f,
                         dev.stream));
    finish("fill");

    printf("%s, cublasLt %zu, seed %llu\n", prop.name, hymt_lt_version(),
           (unsigned long long) seed);
    ceilings();

    for (uint32_t m : wanted) {
        const uint32_t        layers = seven ? 4 : 12;
        hymt_gemm_plan_t      lt[5], best[5];
        double                bytes = 0, flops = 0, floor_us, t;
        std::vector<timed_t>  ways[5];

        if (table) {
            time_table(ps, m, layers);
            continue;
        }

        for (int j = 0; j < 5; j++) {
            int                   bad_own = 0, bad_lt;
            double                b, f, lt_us;
            std::vector<timed_t>  of_lt;

            if (j == 4 && m > 256) {
                continue;
            }

            reference(&ps[j], m);
            of_lt = lt_ways(&ps[j], m, &bad_lt);
            lt[j] = of_lt[0].plan;
            lt_us = of_lt[0].us;

            if (j < 4 || m <= 64) {
                ways[j] = own_ways(&ps[j], m, &bad_own);
            }

            b = (double) ps[j].n * ps[j].k * 2 + (double) m * ps[j].k * 2
                + out_bytes(&ps[j], m);
            f = 2.0 * m * ps[j].n * ps[j].k;
            floor_us = std::max(b / read_rate, f / matmul_rate);

            printf("%-8s m %-4u floor %5.1f lt %6.1f (%2.0f %%) own",
                   ps[j].name, m, floor_us, lt_us, 100 * floor_us / lt_us);

            for (size_t i = 0; i < 4 && i < ways[j].size(); i++) {
                printf(" %.1f (%.0f %%) %s%s", ways[j][i].us,
                       100 * floor_us / ways[j][i].us,
                       plan_text(&ways[j][i].plan),
                       i + 1 < ways[j].size() ? "," : "");
            }

            printf("; of %zu and %zu differ %d, %d\n", ways[j].size(),
                   of_lt.size(), bad_own, bad_lt);

            if (tune && !ways[j].empty()) {
                printf("OWN ");
                print_row(&ps[j], m, &ways[j][0].plan);
            }

            /* the first eight of each kind can be best in a chain */

            if (ways[j].size() > 8) {
                ways[j].resize(8);
            }

            ways[j].insert(ways[j].end(), of_lt.begin(), of_lt.end());
            sort_ways(ways[j]);

            best[j] = ways[j][0].plan;

            if (j < 4) {
                bytes += b;
                flops += f;
            }
        }

        floor_us = layers * std::max(bytes / read_rate, flops / matmul_rate);
        t = chain_us(ps, best, m, layers);

        printf("chain m %-4u floor %.1f a layer, lt %.1f, best alone %.1f", m,
               floor_us / layers, chain_us(ps, lt, m, layers) / layers,
               t / layers);

        if (tune) {
            t = tune_chain(ps, ways, m, layers, best);
        }

        printf(", tuned %.1f (%.0f %%):", t / layers, 100 * floor_us / t);

        for (int j = 0; j < 4; j++) {
            printf(" %s;", plan_text(&best[j]));
        }

        printf("\n");

        for (int j = 0; j < (m > 256 ? 4 : 5); j++) {
            print_row(&ps[j], m, &best[j]);
        }

        fflush(stdout);
    }

    return 0;
}
