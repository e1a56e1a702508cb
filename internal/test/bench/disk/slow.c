// A disk that takes its time, for a server that is started with this in
// LD_PRELOAD: each flush takes DISK_NANOSECONDS longer. It is what a test machine
// lacks whose disk answers from a cache.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

static void wait_for_disk(void)
{
	const char *text = getenv("DISK_NANOSECONDS");
	long long n = text ? atoll(text) : 0;
	struct timespec left = {n / 1000000000, n % 1000000000};
	int before = errno;

	while (nanosleep(&left, &left) != 0 && errno == EINTR)
		;
	errno = before;
}

static int flush(const char *name, int fd)
{
	int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
	int failed = real(fd);

	wait_for_disk();
	return failed;
}

int fsync(int fd) { return flush("fsync", fd); }

int fdatasync(int fd) { return flush("fdatasync", fd); }
