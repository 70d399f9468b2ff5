// The work of file.read.throughput and file.write.throughput as a Google Benchmark program.
// Usage: program DATA OWN [Google Benchmark flags]

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

static const size_t kBlock = 1 << 20, kPass = 16 << 20, kFile = 64 << 20;
static const char *data_path, *own_path;

// A page-aligned buffer, as Fathom's is.
static uint32_t *Words(size_t bytes) {
  uint32_t *words = static_cast<uint32_t *>(aligned_alloc(4096, bytes));
  std::mt19937 random(1);
  for (size_t i = 0; i < bytes / 4; i++) words[i] = random();
  return words;
}

// Reads the next 16 MiB of the first 64 in blocks of 1 MiB; computes XOR and position sum.
static void Read(benchmark::State &state) {
  uint32_t *block = Words(kBlock);
  int file = open(data_path, O_RDONLY);
  if (file < 0) return state.SkipWithError("open data file");
  size_t at = 0;
  uint32_t x = 0;
  uint64_t position = 0;
  for (auto _ : state) {
    lseek(file, at, SEEK_SET);
    for (size_t done = 0; done < kPass; done += kBlock) {
      if (read(file, block, kBlock) != static_cast<ssize_t>(kBlock)) {
        state.SkipWithError("read data file");
        break;
      }
      const uint64_t first = done / 4 + 1;
      for (size_t i = 0; i < kBlock / 4; i++) {
        x ^= block[i];
        position += (first + i) * block[i];
      }
    }
    at = (at + kPass) % kFile;
  }
  benchmark::DoNotOptimize(x);
  benchmark::DoNotOptimize(position);
  close(file);
  free(block);
}

// Writes a new file of 16 MiB in blocks of 1 MiB, with fdatasync and close. Opening is not timed.
static void Write(benchmark::State &state) {
  uint32_t *bytes = Words(kPass);
  for (auto _ : state) {
    state.PauseTiming();
    unlink(own_path);
    int file = open(own_path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (file < 0) {
      state.SkipWithError("create file");
      break;
    }
    state.ResumeTiming();
    bool whole = true;
    for (size_t done = 0; done < kPass; done += kBlock)
      whole &= write(file, bytes + done / 4, kBlock) == static_cast<ssize_t>(kBlock);
    whole &= fdatasync(file) == 0;
    whole &= close(file) == 0;
    if (!whole) {
      state.SkipWithError("write file");
      break;
    }
  }
  unlink(own_path);
  free(bytes);
}

BENCHMARK(Read)->UseRealTime();
BENCHMARK(Write)->UseRealTime();

int main(int words, char **word) {
  if (words < 3) return 2;
  data_path = word[1];
  own_path = word[2];
  word[2] = word[0];
  words -= 2;
  word += 2;
  benchmark::Initialize(&words, word);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
