#include <cerrno>
#include <csignal>

#include <semaphore.h>

#include <weir/main.hpp>

namespace weir {

namespace {
sem_t asked; // a handler may post it, and do little else
volatile std::sig_atomic_t which = 0;
struct sigaction before[2];
constexpr int signals[] = {SIGINT, SIGTERM};

void on_signal(int number) {
  auto kept = errno;
  which = number;
  sem_post(&asked);
  errno = kept;
}
} // namespace

stop_signal::stop_signal() {
  sem_init(&asked, 0, 0);
  struct sigaction ours = {};
  ours.sa_handler = on_signal;
  sigemptyset(&ours.sa_mask);
  ours.sa_flags = SA_RESTART;
  for (int i = 0; i < 2; ++i)
    sigaction(signals[i], &ours, &before[i]);
}

stop_signal::~stop_signal() {
  for (int i = 0; i < 2; ++i)
    sigaction(signals[i], &before[i], nullptr);
  sem_destroy(&asked);
}

int stop_signal::wait() {
  while (sem_wait(&asked) != 0)
    continue; // interrupted by another signal
  return which;
}

} // namespace weir
