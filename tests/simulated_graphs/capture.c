/* CUDA graphs for the simulated device of `cupysim`, which does not have them.
 *
 * The functions of CUDA below take the place of the simulation's own. While a stream captures, they
 * keep a launch, copy, fill or product with its arguments instead of running it, and refuse what a
 * GPU refuses. Launching a graph runs what was kept, with the arguments of the capture.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { UNSUPPORTED = 900, INVALIDATED = 901, MOST_ARGUMENTS = 64, LARGEST_ARGUMENT = 4352 };
enum { LAUNCH, COPY, FILL, PRODUCT };

typedef struct { const char *name; void *thread, *grid; int parameters; } kernel; /* as cupysim */
typedef struct { const kernel *kernel; } function;

typedef struct node {
    int kind;
    void *function, *to, *from, *arguments[MOST_ARGUMENTS];
    unsigned size[7]; /* grid, block, shared memory */
    size_t bytes;
    int value;
    int64_t product[24];
    double alpha, beta;
    struct node *next;
} node;

typedef struct { node *first, *last; int nodes; } graph;

static void *library, *capturing;
static graph *recorded;
static int broken;
static char why[200];

/* Called from Python before CuPy is imported. */
void cs_graphs_use(const char *path) { library = dlopen(path, RTLD_NOW | RTLD_GLOBAL); }
const char *cs_graphs_why(void) { return why; }
int cs_graphs_nodes(void) { return recorded ? recorded->nodes : 0; }

#define REAL(name, ...) ((int (*)())dlsym(library, name))(__VA_ARGS__)

static int refuse(const char *what)
{
    if (!broken)
        snprintf(why, sizeof why, "%s", what);
    broken = 1;
    return UNSUPPORTED;
}

static node *keep(int kind)
{
    node *n = calloc(1, sizeof *n);
    n->kind = kind;
    if (recorded->last)
        recorded->last->next = n;
    else
        recorded->first = n;
    recorded->last = n;
    recorded->nodes++;
    return n;
}

void cs_count(const char *kind, const char *name, uint64_t amount, uint64_t amount2)
{
    size_t length = strlen(name);
    if (capturing && !strcmp(kind, "launch") && length > 6 && !strcmp(name + length - 6, "(host)"))
        refuse(name); /* the simulation runs it at once, and could not repeat it */
    ((void (*)(const char *, const char *, uint64_t, uint64_t))dlsym(library, "cs_count"))(
        kind, name, amount, amount2);
}

/* ------------------------------------------------------------------ capturing */

int cudaStreamBeginCapture(void *stream, int mode)
{
    if (!stream || capturing)
        return UNSUPPORTED; /* the legacy stream cannot be captured */
    capturing = stream, recorded = calloc(1, sizeof *recorded), broken = 0, *why = 0;
    return 0;
}
int cudaStreamEndCapture(void *stream, graph **made)
{
    if (stream != capturing)
        return UNSUPPORTED;
    capturing = NULL;
    *made = broken ? NULL : recorded;
    return broken ? INVALIDATED : 0;
}
int cudaStreamIsCapturing(void *stream, int *status)
{
    *status = stream && stream == capturing ? (broken ? 2 : 1) : 0;
    return 0;
}
int cudaGraphInstantiate(void **made, graph *g) { return *made = g, 0; }
int cudaGraphUpload(graph *g, void *stream) { return 0; }
int cudaGraphDestroy(graph *g) { return 0; }
int cudaGraphExecDestroy(graph *g) /* what is launched afterwards crashes */
{
    for (node *n = g->first, *next; n; n = next) {
        next = n->next;
        for (int i = 0; i < MOST_ARGUMENTS; i++)
            free(n->arguments[i]);
        free(n);
    }
    g->first = g->last = NULL;
    return 0;
}

/* ------------------------------------------------------------------ what a stream does */

int cuLaunchKernel(function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **arguments, void **extra)
{
    if (!capturing || stream != capturing)
        return REAL("cuLaunchKernel", f, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra);
    node *n = keep(LAUNCH);
    n->function = f;
    memcpy(n->size, (unsigned[]){gx, gy, gz, bx, by, bz, shared}, sizeof n->size);
    for (int i = 0; i < f->kernel->parameters; i++) {
        n->arguments[i] = calloc(1, LARGEST_ARGUMENT); /* their sizes are not known: read on */
        struct iovec to = {n->arguments[i], LARGEST_ARGUMENT}, from = {arguments[i], LARGEST_ARGUMENT};
        if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) < 0)
            memcpy(n->arguments[i], arguments[i], 64);
    }
    return 0;
}

int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream)
{
    if (!capturing || stream != capturing)
        return REAL("cudaMemcpyAsync", to, from, bytes, kind, stream);
    if (kind == 1 || kind == 2)
        return refuse("a copy between host and device");
    node *n = keep(COPY);
    n->to = to, n->from = (void *)from, n->bytes = bytes;
    return 0;
}

int cudaMemsetAsync(void *to, int value, size_t bytes, void *stream)
{
    if (!capturing || stream != capturing)
        return REAL("cudaMemsetAsync", to, value, bytes, stream);
    node *n = keep(FILL);
    n->to = to, n->value = value, n->bytes = bytes;
    return 0;
}

typedef struct { void *stream; } *handle; /* as cupysim */

static int product(void *h, int64_t *x, const void *alpha, const void *beta)
{
    return ((int (*)(void *, int, int, int, int, int, const void *, void *, int, int, int64_t, void *,
                     int, int, int64_t, const void *, void *, int, int, int64_t, int, int, int))dlsym(
        library, "cublasGemmStridedBatchedEx"))(
        h, x[0], x[1], x[2], x[3], x[4], alpha, (void *)x[5], x[6], x[7], x[8], (void *)x[9], x[10],
        x[11], x[12], beta, (void *)x[13], x[14], x[15], x[16], x[17], x[18], x[19]);
}

int cublasGemmStridedBatchedEx(handle h, int ta, int tb, int m, int n, int k, const void *alpha,
                               void *a, int type_a, int lda, int64_t step_a, void *b, int type_b,
                               int ldb, int64_t step_b, const void *beta, void *c, int type_c, int ldc,
                               int64_t step_c, int count, int compute, int algorithm)
{
    int64_t x[] = {ta, tb, m, n, k, (int64_t)a, type_a, lda, step_a, (int64_t)b, type_b, ldb, step_b,
                   (int64_t)c, type_c, ldc, step_c, count, compute, algorithm};
    if (!capturing || h->stream != capturing)
        return product(h, x, alpha, beta);
    node *kept = keep(PRODUCT);
    memcpy(kept->product, x, sizeof x);
    kept->function = h;
    size_t size = type_c == 1 ? 8 : 4; /* alpha and beta are copied, as cuBLAS does */
    memcpy(&kept->alpha, alpha, size), memcpy(&kept->beta, beta, size);
    return 0;
}

int cudaGraphLaunch(graph *g, void *stream)
{
    if (capturing)
        return UNSUPPORTED;
    cs_count("graph", "cudaGraphLaunch", g->nodes, 0);
    for (node *n = g->first; n; n = n->next) {
        unsigned *s = n->size;
        int status = 0;
        if (n->kind == LAUNCH)
            status = REAL("cuLaunchKernel", n->function, s[0], s[1], s[2], s[3], s[4], s[5], s[6], stream,
                          n->arguments, NULL);
        else if (n->kind == COPY)
            status = REAL("cudaMemcpyAsync", n->to, n->from, n->bytes, 3, stream);
        else if (n->kind == FILL)
            status = REAL("cudaMemsetAsync", n->to, n->value, n->bytes, stream);
        else
            status = product(n->function, n->product, &n->alpha, &n->beta);
        if (status)
            return status;
    }
    return 0;
}

/* ------------------------------------------------------------------ what a capture refuses */

#define WAITS(name, types, ...)                                                                    \
    int name types { return capturing ? refuse(#name) : REAL(#name, __VA_ARGS__); }
WAITS(cudaDeviceSynchronize, (void), 0)
WAITS(cudaStreamSynchronize, (void *stream), stream)
WAITS(cudaStreamQuery, (void *stream), stream)
WAITS(cudaMemcpy, (void *to, void *from, size_t n, int kind), to, from, n, kind)
