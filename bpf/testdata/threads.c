// Four threads that work for a moment. Built by the tests: gcc -O2 -pthread threads.c
#include <pthread.h>

static volatile unsigned long sink;

static void *work(void *argument)
{
	for (int i = 0; i < 20000000; i++)
		sink = i;
	return argument;
}

int main(void)
{
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], 0, work, 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], 0);
	return 0;
}
