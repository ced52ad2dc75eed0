/*
 * Put before libc (LD_PRELOAD): allocations that fail, and clocks that jump.
 *
 * LABOR_FAULTS names a file that all processes map; whoever runs the test writes into it while they run:
 *     every    one in so many allocations of nginx fails; 0: none
 *     at       the allocation of this number fails, counted from the start of the process; 0: none
 *     failed   how many have failed
 *     wall, monotonic   added to these clocks, ms
 * Only calls out of nginx itself fail (pools, buffers, connections): Rust ends a process that has no memory left.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct faults {
    _Atomic uint64_t every, at, failed;
    _Atomic int64_t wall, monotonic;
};

static struct faults none, *faults = &none;
static void *nginx;
static _Atomic uint64_t calls;

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);

__attribute__((constructor)) static void start(void) {
    const char *name = getenv("LABOR_FAULTS");
    int file = name ? open(name, O_RDWR) : -1;
    void *map = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *faults, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0) {
        close(file);
    }
    Dl_info program;
    if (dladdr((void *) getauxval(AT_ENTRY), &program) != 0) {
        nginx = program.dli_fbase;
    }
    if (map != MAP_FAILED) {
        faults = map;
    }
}

static int fails(void *caller) {
    uint64_t every = faults->every, at = faults->at, n;
    Dl_info object;

    if ((every == 0 && at == 0) || dladdr(caller, &object) == 0) {
        return 0;
    }
    if (object.dli_fbase != nginx) {
        return 0;
    }
    n = atomic_fetch_add(&calls, 1) + 1;
    if ((at != 0 && n == at) || (every != 0 && n % every == 0)) {
        atomic_fetch_add(&faults->failed, 1);
        return 1;
    }
    return 0;
}

#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))
#define FAIL_WITH_NULL do { if (fails(CALLER)) { errno = ENOMEM; return NULL; } } while (0)

void *malloc(size_t size) { FAIL_WITH_NULL; return __libc_malloc(size); }
void *calloc(size_t count, size_t size) { FAIL_WITH_NULL; return __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { FAIL_WITH_NULL; return __libc_realloc(old, size); }
void *memalign(size_t alignment, size_t size) { FAIL_WITH_NULL; return __libc_memalign(alignment, size); }
void *aligned_alloc(size_t alignment, size_t size) { FAIL_WITH_NULL; return __libc_memalign(alignment, size); }

int posix_memalign(void **result, size_t alignment, size_t size) {
    if (fails(CALLER)) {
        return ENOMEM;
    }
    *result = __libc_memalign(alignment, size);
    return *result == NULL ? ENOMEM : 0;
}

static void add(struct timespec *time, int64_t ms) {
    int64_t ns = (int64_t) time->tv_nsec + ms % 1000 * 1000000;
    time->tv_sec += ms / 1000 + (ns >= 1000000000) - (ns < 0);
    time->tv_nsec = ns >= 1000000000 ? ns - 1000000000 : ns < 0 ? ns + 1000000000 : ns;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*_Atomic real)(clockid_t, struct timespec *);
    int result;

    if (real == NULL) {
        real = (int (*)(clockid_t, struct timespec *)) dlsym(RTLD_NEXT, "clock_gettime");
    }
    result = real(clock, time);
    if (result == 0) {
        add(time, clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ? faults->wall : faults->monotonic);
    }
    return result;
}

int gettimeofday(struct timeval *restrict result, void *restrict zone) {
    struct timespec time;

    (void) zone;
    if (clock_gettime(CLOCK_REALTIME, &time) != 0) {
        return -1;
    }
    result->tv_sec = time.tv_sec;
    result->tv_usec = time.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    time_t seconds = clock_gettime(CLOCK_REALTIME, &now) == 0 ? now.tv_sec : -1;

    if (result != NULL) {
        *result = seconds;
    }
    return seconds;
}
