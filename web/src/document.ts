// Generated from docs/run.schema.json by `npm run schema`; change the Rust types instead.

/**
 * How the measured interval compares with the prediction: a value is within or outside, a bound is
 * met or violated.
 */
export type Agreement = "within" | "outside" | "met" | "violated" | "inconclusive";
/**
 * The stable, dotted name of a metric, such as `os.syscall`. Renaming one is a schema change.
 */
export type MetricId = string;
/**
 * One fact. Facts of a record have an order, and a name may occur more than once.
 */
export type Fact = Fact1 & {
  /**
   * What it is; empty where it goes on with the one before.
   */
  name: string;
};
export type Fact1 =
  | {
      /**
       * Its unit.
       */
      unit: "ns" | "bytes" | "bytes/s" | "1/s" | "Hz" | "ratio";
      /**
       * In base units.
       */
      value: number;
    }
  | {
      /**
       * The words.
       */
      text: string;
    }
  | {
      /**
       * The line.
       */
      line: string;
    };
/**
 * Why there is no prediction. An honest answer, and never an empty cell.
 */
export type NoModel =
  | {
      kind: "missing_input";
      /**
       * The metric and its case.
       */
      metric: string;
    }
  | {
      kind: "no_kept_result";
      /**
       * The metric and its case.
       */
      metric: string;
    }
  | {
      /**
       * The CPU, or the row of the table.
       */
      cpu: string;
      /**
       * The figure.
       */
      figure: string;
      kind: "not_published";
    }
  | {
      kind: "clock_source_not_published";
      /**
       * The clock source.
       */
      source: string;
    }
  | {
      /**
       * The architecture.
       */
      architecture: string;
      kind: "unknown_architecture";
    }
  | {
      kind: "unusable_table";
      /**
       * Why.
       */
      reason: string;
    }
  | {
      /**
       * Their paths, such as `cpu.tsc_hz`.
       */
      facts: string[];
      kind: "unknown_fact";
    }
  | {
      kind: "no_such_cache";
      /**
       * The level.
       */
      level: number;
    }
  | {
      /**
       * The parameters.
       */
      case: string;
      kind: "no_such_case";
    }
  | {
      /**
       * The sum.
       */
      formula: string;
      kind: "no_time";
      /**
       * What it gives, in nanoseconds.
       */
      value: number;
    }
  | {
      kind: "no_slope";
    }
  | {
      kind: "other_clock";
    }
  | {
      kind: "between_levels";
    }
  | {
      kind: "prefetched";
    }
  | {
      kind: "threads_of_one_core";
    }
  | {
      kind: "nested_paging";
    }
  | {
      kind: "no_common_set";
    }
  | {
      kind: "set_too_small";
      /**
       * The largest.
       */
      largest_bytes: number;
      /**
       * What is needed.
       */
      needed_bytes: number;
    }
  | {
      kind: "write_combining";
    }
  | {
      kind: "two_copies";
    }
  | {
      kind: "schedulers_choice";
    }
  | {
      kind: "speed_of_device";
    }
  | {
      kind: "service_time";
    }
  | {
      kind: "mixed_residency";
    };
/**
 * One parameter's value. Sizes are bytes.
 */
export type ParamValue = number | string;
/**
 * The base unit of a value. Nothing is stored in a scaled unit.
 */
export type Unit = "ns" | "bytes" | "bytes/s" | "1/s" | "Hz" | "ratio";
/**
 * Counts of single timings: HdrHistogram V2 of three significant digits.
 */
export type Histogram = string;
/**
 * Why no visits are selected, so that a case stands as found.
 */
export type NotSelected =
  | "second_cpu"
  | "device"
  | "long_operation"
  | "slows_itself"
  | "input"
  | "too_few_clean"
  | "every_trial"
  | "no_reference";
/**
 * A headline.
 */
export type Value = number | string;
/**
 * What to do next. The name is stable; how it reads, with the options of the program that it
 * needs, is a matter of the views.
 */
export type Remedy =
  | {
      kind: "raise_cpu_quota";
    }
  | {
      kind: "raise_device_limit";
    }
  | {
      kind: "quieter_host";
    }
  | {
      kind: "quiet_cpu";
    }
  | {
      kind: "stop_others";
    }
  | {
      kind: "move_interrupts";
    }
  | {
      kind: "other_cpu";
    }
  | {
      kind: "find_affinity_changes";
    }
  | {
      kind: "quiet_core";
    }
  | {
      kind: "avoid_swap";
    }
  | {
      kind: "count_groups";
    }
  | {
      kind: "follow_drift";
    }
  | {
      kind: "measure_longer";
    }
  | {
      kind: "let_settle";
    }
  | {
      kind: "let_settle_or_measure_longer";
    }
  | {
      kind: "run_to_end";
    }
  | {
      kind: "more_bytes";
    }
  | {
      kind: "distrust_syncs";
    }
  | {
      kind: "leave_sandbox";
    }
  | {
      kind: "allow_call";
    }
  | {
      kind: "newer_kernel";
      /**
       * The first that will do.
       */
      version: string;
    }
  | {
      kind: "kernel_with";
      /**
       * The option.
       */
      option: string;
    }
  | {
      kind: "raise_limit";
      /**
       * `ulimit -n`, or the name of a kernel setting.
       */
      limits: string[];
    }
  | {
      kind: "remove_semaphores";
    }
  | {
      kind: "second_cpu";
    }
  | {
      kind: "more_cores";
    }
  | {
      /**
       * Its number.
       */
      cpu: number;
      kind: "allow_cpu";
    }
  | {
      kind: "mount_proc";
    }
  | {
      kind: "install_shell";
    }
  | {
      kind: "allow_memory_programs";
    }
  | {
      kind: "fifo_folder";
    }
  | {
      kind: "disk_folder";
    }
  | {
      kind: "free_temporary_space";
    }
  | {
      kind: "readable_clock_source";
    }
  | {
      kind: "allow_huge_pages";
    }
  | {
      kind: "start_with_huge_pages";
    }
  | {
      kind: "advise_huge_pages";
    }
  | {
      kind: "free_memory";
    }
  | {
      kind: "allow_overcommit";
    }
  | {
      kind: "free_space";
    }
  | {
      kind: "other_folder";
    }
  | {
      kind: "other_folder_or_memory";
    };

/**
 * One JSON document: a run, the machine it ran on, and its records.
 */
export interface Document {
  /**
   * The hosts at the far ends of its measurements.
   */
  far?: FarHost[];
  host: Host1;
  /**
   * The results, in the order they were done.
   */
  records: Record[];
  run: Run;
  /**
   * [`crate::SCHEMA_VERSION`].
   */
  schema: number;
  tool: Tool;
}
/**
 * A host at the far end of a run's measurements.
 */
export interface FarHost {
  /**
   * How its clock relates to the near host's.
   */
  clock?: ClockOffset | null;
  host: Host;
  /**
   * The name by which records refer to it, in their parameter `to`.
   */
  name: string;
}
/**
 * How the clock of a far host relates to the near one, by exchanges of time stamps. It places
 * series of two hosts on one axis; no duration is computed from two clocks.
 */
export interface ClockOffset {
  /**
   * How much faster the far clock goes, in parts per million.
   */
  drift_ppm: number;
  /**
   * Half the smallest round trip: the error of the offset, in nanoseconds.
   */
  error_ns: number;
  /**
   * Far clock minus near clock when the run began, in nanoseconds.
   */
  offset_ns: number;
}
/**
 * Its facts.
 */
export interface Host {
  /**
   * Address space randomisation: the value of `kernel.randomize_va_space`.
   */
  aslr?: number | null;
  /**
   * Whether the scheduler shares CPU time by session (`kernel.sched_autogroup_enabled`).
   */
  autogroup?: boolean | null;
  cgroup: Cgroup;
  /**
   * The kernel's clock source, and those it could use.
   */
  clocksource?: string | null;
  /**
   * Clock sources the kernel could use.
   */
  clocksources_available: string[];
  /**
   * `docker`, `podman`, `lxc` … where there is a sign of one; a container may be in a virtual
   * machine.
   */
  container?: string | null;
  cpu: Cpu;
  /**
   * Block devices.
   */
  disks: Disk[];
  /**
   * The distribution, such as `Debian GNU/Linux 12 (bookworm)`.
   */
  distribution?: string | null;
  /**
   * Which machine it is, whatever its name: a keyed hash of what identifies it, 32 hex digits.
   */
  id?: string | null;
  /**
   * The kernel's release, such as `6.18.44`.
   */
  kernel: string;
  /**
   * The kernel's command line.
   */
  kernel_command_line?: string | null;
  /**
   * The C library this program is linked with, such as `glibc 2.36` or `musl`.
   */
  libc?: string | null;
  /**
   * Links whose speed and width the kernel tells, such as PCIe.
   */
  links: BusLink[];
  memory: Memory;
  /**
   * Mitigations in force: vulnerability → what the kernel says of it.
   */
  mitigations: {
    [k: string]: string;
  };
  /**
   * The host's name, for people.
   */
  name: string;
  /**
   * Network interfaces.
   */
  network: NetworkLink[];
  /**
   * Where each fact was read: dotted path (`cpu.model`) → file, instruction or system call.
   */
  origins: {
    [k: string]: string;
  };
  tcp: Tcp;
  /**
   * Seconds since boot when the facts were read.
   */
  uptime_s?: number | null;
  /**
   * `none`, `kvm`, `xen`, `vmware`, `hyperv` …; absent where unknown.
   */
  virtualization?: string | null;
}
/**
 * Limits of the cgroup this process runs in.
 */
export interface Cgroup {
  /**
   * CPUs' worth of time the quota allows, such as 0.5.
   */
  cpu_quota?: number | null;
  /**
   * CPUs the cpuset allows.
   */
  cpus: number[];
  /**
   * Memory limit in bytes.
   */
  memory_limit_bytes?: number | null;
  /**
   * Path within the hierarchy.
   */
  path?: string | null;
  /**
   * Limit on processes and threads.
   */
  pids_max?: number | null;
  /**
   * 1 or 2.
   */
  version?: number | null;
}
/**
 * The processor.
 */
export interface Cpu {
  /**
   * CPUs this process may run on.
   */
  allowed: number[];
  /**
   * `x86_64` or `aarch64`.
   */
  architecture: string;
  /**
   * Nominal (base) frequency.
   */
  base_hz?: number | null;
  /**
   * Whether boost is allowed.
   */
  boost?: boolean | null;
  /**
   * Highest boost frequency.
   */
  boost_hz?: number | null;
  /**
   * Caches of the first allowed CPU.
   */
  caches: Cache[];
  /**
   * Physical cores.
   */
  cores?: number | null;
  /**
   * Family (x86) or implementer (ARM).
   */
  family?: number | null;
  /**
   * Feature flags that matter to a measurement.
   */
  flags: string[];
  /**
   * cpufreq driver.
   */
  frequency_driver?: string | null;
  /**
   * cpufreq governor of the first allowed CPU.
   */
  governor?: string | null;
  /**
   * Best known nominal rate, for scale: base, else the counter's.
   */
  hz?: number | null;
  /**
   * Kinds of core on a hybrid CPU: kind → its CPUs; empty where all are of one kind.
   */
  kinds: {
    [k: string]: number[];
  };
  /**
   * Logical CPUs online.
   */
  logical: number;
  /**
   * Microcode revision.
   */
  microcode?: string | null;
  /**
   * Model name.
   */
  model: string;
  /**
   * Model number (x86) or part (ARM).
   */
  model_number?: number | null;
  /**
   * NUMA nodes: node → its CPUs.
   */
  numa: {
    /**
     * This interface was referenced by `undefined`'s JSON-Schema definition
     * via the `patternProperty` "^\d+$".
     */
    [k: string]: number[];
  };
  /**
   * Sets of SMT siblings with more than one member.
   */
  siblings: number[][];
  /**
   * Whether SMT is on.
   */
  smt?: boolean | null;
  /**
   * Sockets.
   */
  sockets?: number | null;
  /**
   * Stepping (x86) or revision (ARM).
   */
  stepping?: number | null;
  /**
   * Rate of the time stamp counter by calibration or by the CPU's own word.
   */
  tsc_hz?: number | null;
  /**
   * `AuthenticAMD`, `GenuineIntel`, `ARM` …
   */
  vendor?: string | null;
}
/**
 * One cache.
 */
export interface Cache {
  /**
   * `data`, `instruction` or `unified`.
   */
  kind: string;
  /**
   * Level.
   */
  level: number;
  /**
   * Line in bytes.
   */
  line_bytes?: number | null;
  /**
   * CPUs that share it.
   */
  shared_by: number[];
  /**
   * Size in bytes.
   */
  size_bytes: number;
  /**
   * Ways of associativity.
   */
  ways?: number | null;
}
/**
 * A block device.
 */
export interface Disk {
  /**
   * Logical sector in bytes.
   */
  logical_sector_bytes?: number | null;
  /**
   * Model, where it has one.
   */
  model?: string | null;
  /**
   * Kernel name, such as `nvme0n1`.
   */
  name: string;
  /**
   * Physical sector in bytes.
   */
  physical_sector_bytes?: number | null;
  /**
   * Whether it turns.
   */
  rotational?: boolean | null;
  /**
   * I/O scheduler in force.
   */
  scheduler?: string | null;
  /**
   * Size in bytes.
   */
  size_bytes: number;
}
/**
 * A bus link.
 */
export interface BusLink {
  /**
   * What hangs on it: `disk`, `network` or `display`.
   */
  kind: string;
  /**
   * Current width in lanes.
   */
  lanes?: number | null;
  /**
   * Highest width.
   */
  lanes_max?: number | null;
  /**
   * Address, such as `0000:01:00.0`.
   */
  name: string;
  /**
   * Current speed in transfers per second.
   */
  transfers_per_s?: number | null;
  /**
   * Highest speed.
   */
  transfers_per_s_max?: number | null;
}
/**
 * Memory.
 */
export interface Memory {
  /**
   * What a new process could take without swapping.
   */
  available_bytes?: number | null;
  /**
   * What DAMON does: the actions of its active schemes, such as `pageout`; `none`.
   */
  damon?: string | null;
  /**
   * Huge pages reserved: size in bytes → count.
   */
  huge_pages: {
    /**
     * This interface was referenced by `undefined`'s JSON-Schema definition
     * via the `patternProperty` "^\d+$".
     */
    [k: string]: number;
  };
  ksm: Ksm;
  /**
   * Modules, where SMBIOS is readable.
   */
  modules: MemoryModule[];
  /**
   * Page size.
   */
  page_bytes: number;
  /**
   * Swap space.
   */
  swap_bytes?: number | null;
  /**
   * Transparent huge pages: `always`, `madvise` or `never`.
   */
  thp?: string | null;
  /**
   * All of it, as the kernel counts.
   */
  total_bytes?: number | null;
  zswap: Zswap;
}
/**
 * Merging of equal pages.
 */
export interface Ksm {
  /**
   * Pages saved by merging when the facts were read.
   */
  pages_sharing?: number | null;
  /**
   * 0 is stopped, 1 running, 2 stopped with all pages unmerged.
   */
  run?: number | null;
}
/**
 * One memory module.
 */
export interface MemoryModule {
  /**
   * `DDR4`, `DDR5` …
   */
  kind?: string | null;
  /**
   * Size in bytes.
   */
  size_bytes: number;
  /**
   * Slot.
   */
  slot: string;
  /**
   * Configured rate in transfers per second.
   */
  transfers_per_s?: number | null;
}
/**
 * Compressed swap in memory.
 */
export interface Zswap {
  /**
   * Compression algorithm.
   */
  compressor?: string | null;
  /**
   * Whether it is on.
   */
  enabled?: boolean | null;
  /**
   * Per cent of memory it may take.
   */
  max_pool_percent?: number | null;
}
/**
 * A network interface.
 */
export interface NetworkLink {
  /**
   * Negotiated speed in bits per second.
   */
  bits_per_s?: number | null;
  /**
   * Driver.
   */
  driver?: string | null;
  /**
   * MTU in bytes.
   */
  mtu_bytes?: number | null;
  /**
   * Name, such as `eth0`.
   */
  name: string;
  /**
   * Whether the link is up.
   */
  up?: boolean | null;
}
/**
 * TCP settings of this network namespace.
 */
export interface Tcp {
  /**
   * Longest queue of connections waiting for accept(2) (`net.core.somaxconn`).
   */
  accept_queue_max?: number | null;
  /**
   * Default congestion control, such as `cubic`.
   */
  congestion?: string | null;
  /**
   * Congestion controls that are loaded.
   */
  congestion_available: string[];
  /**
   * First and last ephemeral port.
   *
   * @minItems 2
   * @maxItems 2
   */
  ports?: [number, number] | null;
  /**
   * Default queueing discipline.
   */
  queue_discipline?: string | null;
  /**
   * Receive buffer (`net.ipv4.tcp_rmem`).
   */
  receive_buffer?: BufferSizes | null;
  /**
   * Largest receive buffer that a program may ask for (`net.core.rmem_max`).
   */
  receive_buffer_limit_bytes?: number | null;
  /**
   * Send buffer (`net.ipv4.tcp_wmem`).
   */
  send_buffer?: BufferSizes | null;
  /**
   * Largest send buffer that a program may ask for (`net.core.wmem_max`).
   */
  send_buffer_limit_bytes?: number | null;
  /**
   * Whether an idle connection starts slowly again.
   */
  slow_start_after_idle?: boolean | null;
  /**
   * Reuse of ports in TIME_WAIT (`net.ipv4.tcp_tw_reuse`): 0 never, 1 always, 2 on loopback.
   */
  time_wait_reuse?: number | null;
}
/**
 * Sizes of a socket buffer that the kernel adapts.
 */
export interface BufferSizes {
  /**
   * At the start of a connection.
   */
  default_bytes: number;
  /**
   * At most.
   */
  max_bytes: number;
  /**
   * Guaranteed under memory pressure.
   */
  min_bytes: number;
}
/**
 * The machine; the near one, where a run has two ends.
 */
export interface Host1 {
  /**
   * Address space randomisation: the value of `kernel.randomize_va_space`.
   */
  aslr?: number | null;
  /**
   * Whether the scheduler shares CPU time by session (`kernel.sched_autogroup_enabled`).
   */
  autogroup?: boolean | null;
  cgroup: Cgroup;
  /**
   * The kernel's clock source, and those it could use.
   */
  clocksource?: string | null;
  /**
   * Clock sources the kernel could use.
   */
  clocksources_available: string[];
  /**
   * `docker`, `podman`, `lxc` … where there is a sign of one; a container may be in a virtual
   * machine.
   */
  container?: string | null;
  cpu: Cpu;
  /**
   * Block devices.
   */
  disks: Disk[];
  /**
   * The distribution, such as `Debian GNU/Linux 12 (bookworm)`.
   */
  distribution?: string | null;
  /**
   * Which machine it is, whatever its name: a keyed hash of what identifies it, 32 hex digits.
   */
  id?: string | null;
  /**
   * The kernel's release, such as `6.18.44`.
   */
  kernel: string;
  /**
   * The kernel's command line.
   */
  kernel_command_line?: string | null;
  /**
   * The C library this program is linked with, such as `glibc 2.36` or `musl`.
   */
  libc?: string | null;
  /**
   * Links whose speed and width the kernel tells, such as PCIe.
   */
  links: BusLink[];
  memory: Memory;
  /**
   * Mitigations in force: vulnerability → what the kernel says of it.
   */
  mitigations: {
    [k: string]: string;
  };
  /**
   * The host's name, for people.
   */
  name: string;
  /**
   * Network interfaces.
   */
  network: NetworkLink[];
  /**
   * Where each fact was read: dotted path (`cpu.model`) → file, instruction or system call.
   */
  origins: {
    [k: string]: string;
  };
  tcp: Tcp;
  /**
   * Seconds since boot when the facts were read.
   */
  uptime_s?: number | null;
  /**
   * `none`, `kvm`, `xen`, `vmware`, `hyperv` …; absent where unknown.
   */
  virtualization?: string | null;
}
/**
 * The result of one case of one metric in one run: the only result shape there is.
 */
export interface Record {
  /**
   * How the two stand to each other.
   */
  agreement?: Agreement | null;
  /**
   * Which direction is an improvement.
   */
  better: "lower" | "higher" | "neither";
  /**
   * What the probe verified of its own work: name → what was counted.
   */
  checks: {
    [k: string]: string;
  };
  /**
   * CRC-32 over the record without its samples, as 8 hexadecimal digits. It detects accidents,
   * not intent.
   */
  checksum: string;
  /**
   * The metrics this one was computed from; empty for a measured one.
   */
  derived_from: MetricId[];
  disturbance: Disturbance;
  /**
   * Facts beside a number taken by hand, in the order in which they are read.
   */
  facts?: Fact[];
  /**
   * The stable, dotted name of a metric, such as `os.syscall`. Renaming one is a schema change.
   */
  metric: string;
  /**
   * Why there is no prediction.
   */
  no_model?: NoModel | null;
  /**
   * Notes a reader needs beside the number, such as the clock's floor or what was subtracted.
   */
  notes?: string[];
  params: Params;
  /**
   * What the number should be.
   */
  prediction?: Prediction | null;
  /**
   * The raw values; only where they were asked for.
   */
  samples?: Sample[] | null;
  /**
   * What counters showed over the run's time, for measurements that last.
   */
  series?: Series[];
  /**
   * What they amount to; absent where there is no result.
   */
  summary?: Summary | null;
  /**
   * The metric's title.
   */
  title: string;
  /**
   * The base unit of a value. Nothing is stored in a scaled unit.
   */
  unit: "ns" | "bytes" | "bytes/s" | "1/s" | "Hz" | "ratio";
  /**
   * The headline: a number in the record's unit, or text where the result is no quantity.
   * Absent where no number may be shown, or only a bound is known.
   */
  value?: Value | null;
  verdict: Verdict;
  /**
   * Name of the visits the samples came from: records of one visit name were taken together.
   */
  visit: string;
}
/**
 * Counters over all visits.
 */
export interface Disturbance {
  /**
   * CPU time of the worker and the children it reaped over the same rounds.
   */
  cpu_ns: number;
  /**
   * Time some task of the machine waited for a CPU (`/proc/pressure/cpu`).
   */
  cpu_pressure_ns?: number | null;
  /**
   * Time the pinned CPU spent in interrupts (`/proc/stat`).
   */
  interrupt_ns?: number | null;
  /**
   * Times the worker was preempted.
   */
  involuntary_switches: number;
  /**
   * Page faults that waited for a device.
   */
  major_faults: number;
  /**
   * Rounds after which the worker was found on another CPU.
   */
  migrations: number;
  /**
   * Page faults that needed no device.
   */
  minor_faults: number;
  /**
   * Periods that ran.
   */
  quota_periods?: number | null;
  /**
   * Time runnable but waiting for a CPU (`/proc/self/schedstat`).
   */
  run_queue_ns?: number | null;
  /**
   * Time the hypervisor gave the pinned CPU to another guest (`/proc/stat`).
   */
  steal_ns?: number | null;
  /**
   * Time the CPU cgroup was throttled (`cpu.stat`).
   */
  throttled_ns?: number | null;
  /**
   * Periods in which it was.
   */
  throttled_periods?: number | null;
  /**
   * Times the worker gave up the CPU itself.
   */
  voluntary_switches: number;
  /**
   * Wall time of the visit's rounds.
   */
  wall_ns: number;
}
/**
 * With which parameters.
 */
export interface Params {
  [k: string]: ParamValue;
}
/**
 * A prediction: hardware term + software term, with low and high; or an ordinal claim, which has
 * no value and only one of the two limits.
 */
export interface Prediction {
  /**
   * The formula in words and symbols.
   */
  formula: string;
  /**
   * What the hardware owes, in the metric's unit.
   */
  hardware?: number | null;
  /**
   * Upper limit; absent where there is none.
   */
  high?: number | null;
  /**
   * What it says of the machine when the measured value lies above, in one line.
   */
  if_above?: string;
  /**
   * What it says when it lies below.
   */
  if_below?: string;
  /**
   * The figures put into it.
   */
  inputs: Input[];
  /**
   * Lower limit; absent where there is none.
   */
  low?: number | null;
  /**
   * What the software adds, in the metric's unit.
   */
  software?: number | null;
  /**
   * Where the formula or its constants come from.
   */
  source: string;
  /**
   * The stratum of its measured inputs, and of the estimate it is compared with.
   */
  stratum?: "full_speed" | "core_at_full_speed" | "as_found";
  /**
   * How far the intervals of its measured inputs may move the limits, as a share of them.
   */
  uncertainty?: number;
  /**
   * Their sum; absent for an ordinal claim.
   */
  value?: number | null;
}
/**
 * One figure put into a formula.
 */
export interface Input {
  /**
   * Its name in the formula.
   */
  name: string;
  /**
   * Where it comes from.
   */
  origin:
    | {
        kind: "this_run";
        /**
         * The metric and its case.
         */
        metric: string;
      }
    | {
        kind: "earlier_run";
        /**
         * The metric and its case.
         */
        metric: string;
      }
    | {
        /**
         * Its path, such as `cpu.base_hz`.
         */
        fact: string;
        kind: "host";
        /**
         * Where it was read; empty where that is not known.
         */
        read_at?: string;
      }
    | {
        kind: "table";
        /**
         * The row.
         */
        row: string;
      }
    | {
        kind: "published";
        /**
         * Where.
         */
        source: string;
      }
    | {
        kind: "control_group";
        /**
         * Which, and of which group.
         */
        limit: string;
      }
    | {
        kind: "case";
      }
    | {
        /**
         * How.
         */
        from: string;
        kind: "calculated";
      }
    | {
        /**
         * Where; empty for what it timed.
         */
        at?: string;
        kind: "counted";
      };
  /**
   * Its unit; absent for a count, a share or core clock cycles.
   */
  unit?: Unit | null;
  /**
   * Its value, in base units.
   */
  value: number;
}
/**
 * The values of one case taken by one worker process.
 */
export interface Sample {
  /**
   * Iterations in a batch; 1 where operations were timed singly.
   */
  batch: number;
  /**
   * What the probe verified of its own work.
   */
  checks?: Check[];
  /**
   * The CPU the worker was pinned to.
   */
  cpu: number;
  disturbance: Disturbance1;
  /**
   * Indices into `values` whose round a counter says was disturbed.
   */
  disturbed?: number[];
  /**
   * What the far end says of itself, where the work has two ends.
   */
  far?: FarEnd | null;
  /**
   * As often, the part that only the core's frequency slows.
   */
  frequency_ns?: number[];
  /**
   * Single timed operations, in the metric's unit, where there are too many to keep each.
   */
  histogram?: Histogram | null;
  /**
   * What was subtracted from each batch, in nanoseconds, and is not the operation: the clock's
   * own cost and the kernel's entry, found by timing N and 2N iterations.
   */
  overhead_ns: number;
  /**
   * Number of the process within the case, from 0.
   */
  process: number;
  /**
   * Each time of the reference loop, fixed work that runs before, between and after the rounds,
   * in whole nanoseconds: the part that a busy sibling thread of the core slows.
   */
  reference_ns?: number[];
  /**
   * What a loop of the same shape without the operation took, which was subtracted from each
   * value, in nanoseconds an operation; absent where there was no such loop.
   */
  twin_ns?: number | null;
  /**
   * One value a batch (or a single operation), in the metric's unit, in the order taken.
   */
  values: number[];
  /**
   * Values of each round; 0 where no rounds are known.
   */
  values_per_round?: number;
  /**
   * The visit was taken only where the core was at full speed, so that it is none as found.
   */
  waited?: boolean;
  /**
   * First rounds left out because they lay outside the range of the rest.
   */
  warmup_dropped: number;
}
/**
 * One thing a probe verified of its own work: children reaped, switches made, bytes read.
 */
export interface Check {
  /**
   * The count and what was expected, in words.
   */
  detail: string;
  /**
   * What was counted, such as `context switches`.
   */
  name: string;
  /**
   * Whether the count was what the work asked for.
   */
  passed: boolean;
}
/**
 * Counters over the whole visit.
 */
export interface Disturbance1 {
  /**
   * CPU time of the worker and the children it reaped over the same rounds.
   */
  cpu_ns: number;
  /**
   * Time some task of the machine waited for a CPU (`/proc/pressure/cpu`).
   */
  cpu_pressure_ns?: number | null;
  /**
   * Time the pinned CPU spent in interrupts (`/proc/stat`).
   */
  interrupt_ns?: number | null;
  /**
   * Times the worker was preempted.
   */
  involuntary_switches: number;
  /**
   * Page faults that waited for a device.
   */
  major_faults: number;
  /**
   * Rounds after which the worker was found on another CPU.
   */
  migrations: number;
  /**
   * Page faults that needed no device.
   */
  minor_faults: number;
  /**
   * Periods that ran.
   */
  quota_periods?: number | null;
  /**
   * Time runnable but waiting for a CPU (`/proc/self/schedstat`).
   */
  run_queue_ns?: number | null;
  /**
   * Time the hypervisor gave the pinned CPU to another guest (`/proc/stat`).
   */
  steal_ns?: number | null;
  /**
   * Time the CPU cgroup was throttled (`cpu.stat`).
   */
  throttled_ns?: number | null;
  /**
   * Periods in which it was.
   */
  throttled_periods?: number | null;
  /**
   * Times the worker gave up the CPU itself.
   */
  voluntary_switches: number;
  /**
   * Wall time of the visit's rounds.
   */
  wall_ns: number;
}
/**
 * What the far end of a visit says of itself: a process of its own on this host or another.
 */
export interface FarEnd {
  /**
   * What it verified of its own work.
   */
  checks?: Check[];
  /**
   * The CPU it was pinned to.
   */
  cpu: number;
  disturbance: Disturbance2;
  /**
   * Each time of its reference loop, in whole nanoseconds.
   */
  reference_ns?: number[];
}
/**
 * Counters over the whole visit.
 */
export interface Disturbance2 {
  /**
   * CPU time of the worker and the children it reaped over the same rounds.
   */
  cpu_ns: number;
  /**
   * Time some task of the machine waited for a CPU (`/proc/pressure/cpu`).
   */
  cpu_pressure_ns?: number | null;
  /**
   * Time the pinned CPU spent in interrupts (`/proc/stat`).
   */
  interrupt_ns?: number | null;
  /**
   * Times the worker was preempted.
   */
  involuntary_switches: number;
  /**
   * Page faults that waited for a device.
   */
  major_faults: number;
  /**
   * Rounds after which the worker was found on another CPU.
   */
  migrations: number;
  /**
   * Page faults that needed no device.
   */
  minor_faults: number;
  /**
   * Periods that ran.
   */
  quota_periods?: number | null;
  /**
   * Time runnable but waiting for a CPU (`/proc/self/schedstat`).
   */
  run_queue_ns?: number | null;
  /**
   * Time the hypervisor gave the pinned CPU to another guest (`/proc/stat`).
   */
  steal_ns?: number | null;
  /**
   * Time the CPU cgroup was throttled (`cpu.stat`).
   */
  throttled_ns?: number | null;
  /**
   * Periods in which it was.
   */
  throttled_periods?: number | null;
  /**
   * Times the worker gave up the CPU itself.
   */
  voluntary_switches: number;
  /**
   * Wall time of the visit's rounds.
   */
  wall_ns: number;
}
/**
 * Telemetry of one counter at one end, on the clock of its run.
 */
export interface Series {
  /**
   * The far host it was read on, by its name in the run; absent for the near one.
   */
  at?: string | null;
  /**
   * What it shows, such as `server CPU`.
   */
  name: string;
  /**
   * When each value was read, in nanoseconds since the run began, ascending.
   */
  times_ns: number[];
  /**
   * The base unit of a value. Nothing is stored in a scaled unit.
   */
  unit: "ns" | "bytes" | "bytes/s" | "1/s" | "Hz" | "ratio";
  /**
   * The values, as many as times.
   */
  values: number[];
}
/**
 * Location, spread and interval of a case, reduced from its samples. All values are in the
 * metric's unit.
 */
export interface Summary {
  /**
   * The estimate over the first visits whatever they were; absent for what is not visited.
   */
  as_found?: Estimate | null;
  /**
   * Lag-1 autocorrelation within a process, where n ≥ 100 come from one; else absent.
   */
  autocorrelation?: number | null;
  /**
   * Set when the value is a difference whose interval is too wide to print it as a number: the
   * upper limit to print as "≤ bound".
   */
  bound?: number | null;
  /**
   * The smallest time the clock can tell, for operations timed singly that last less than
   * 100 × its read cost.
   */
  clock_floor?: number | null;
  /**
   * Clusters of process medians, where they fall into two; else empty.
   */
  clusters: Mode[];
  /**
   * Values whose round was disturbed.
   */
  disturbed: number;
  /**
   * Change over a visit by Theil–Sen ÷ the headline: the median over processes; 0 where their
   * interval includes it, absent where there are too few processes to tell.
   */
  drift?: number | null;
  /**
   * The estimate over the first clean visits, where there are enough of them.
   */
  full_speed?: Estimate | null;
  /**
   * Confidence interval of the headline; absent where there are too few processes or blocks.
   */
  interval?: Interval | null;
  /**
   * Largest value.
   */
  max: number;
  /**
   * Arithmetic mean of all values.
   */
  mean: number;
  /**
   * Headline: the median over processes of their medians.
   */
  median: number;
  /**
   * The same headline without the values whose round was disturbed; absent where none was.
   */
  median_undisturbed?: number | null;
  /**
   * Smallest value: the floor, for CPU-bound metrics.
   */
  min: number;
  /**
   * Modes of single timings by their share of operations, else of the values: where there are
   * 100 or more and more than one mode; else empty.
   */
  modes: Mode[];
  /**
   * Values over all processes.
   */
  n: number;
  /**
   * Why there is no estimate at full speed, where there is none.
   */
  not_selected?: NotSelected | null;
  outliers: Outliers;
  /**
   * The median of each process, in the order of their numbers.
   */
  process_medians: number[];
  /**
   * Fresh processes they came from.
   */
  processes: number;
  /**
   * Quantiles of single timed operations, in ascending order; none of batches, and none with
   * fewer than 10 operations beyond it.
   */
  quantiles?: Quantile[];
  /**
   * Sample standard deviation of all values (n − 1).
   */
  sd: number;
  /**
   * Standard deviation between process medians ÷ the headline.
   */
  spread_between: number;
  /**
   * Standard deviation within a process: the median over processes of their own, ÷ the headline.
   */
  spread_within: number;
  /**
   * Which visits the headline and all else here rest on.
   */
  stratum: "full_speed" | "core_at_full_speed" | "as_found";
  /**
   * The classic trimmed protocol's mean and deviation over the same values.
   */
  trimmed?: Trimmed | null;
}
/**
 * An estimate over some of the visits.
 */
export interface Estimate {
  /**
   * Its interval.
   */
  interval?: Interval | null;
  /**
   * The median over their processes.
   */
  median: number;
  /**
   * Visits it was chosen from.
   */
  of: number;
  /**
   * The median time of the reference loop in each of them, in the same order and in whole
   * nanoseconds: how fast the core was. Empty where not every process has one.
   */
  process_loops?: number[];
  /**
   * The median of each process, in the order of their numbers: what comparisons are made on.
   */
  process_medians: number[];
  /**
   * Visits it rests on.
   */
  visits: number;
}
/**
 * A confidence interval.
 */
export interface Interval {
  /**
   * What it was computed over.
   */
  basis: "processes" | "within_run" | "derived";
  /**
   * Upper end.
   */
  high: number;
  /**
   * The level that it really has, such as 0.979 for 10 processes.
   */
  level: number;
  /**
   * Lower end.
   */
  low: number;
}
/**
 * One mode of the values, or one cluster of process medians.
 */
export interface Mode {
  /**
   * Where it is, in the metric's unit.
   */
  at: number;
  /**
   * Its share of the values or single timings, 0 to 1.
   */
  share: number;
}
/**
 * Counts of outliers by Tukey's fences. They are shown, never removed.
 */
export interface Outliers {
  /**
   * Between the upper fences.
   */
  high_mild: number;
  /**
   * Above the upper outer fence.
   */
  high_severe: number;
  /**
   * Between the lower fences.
   */
  low_mild: number;
  /**
   * Below the lower outer fence.
   */
  low_severe: number;
}
/**
 * A quantile of single timed operations.
 */
export interface Quantile {
  /**
   * The share of operations at or below it, such as 0.99.
   */
  q: number;
  /**
   * In the metric's unit.
   */
  value: number;
}
/**
 * Mean and deviation by the classic trimmed protocol.
 */
export interface Trimmed {
  /**
   * Mean of those that remained.
   */
  mean: number;
  /**
   * Values that remained.
   */
  n: number;
  /**
   * Their standard deviation (n − 1). It understates σ by about half.
   */
  sd: number;
  /**
   * The winsorised standard error of the mean; over processes, where there is more than one.
   */
  se: number;
  /**
   * Values taken.
   */
  trials: number;
}
/**
 * Whether the number can be believed.
 */
export interface Verdict {
  /**
   * Its reasons, the weightiest first; some only when the state is `valid`: what held the number
   * where it is, such as a cap.
   */
  reasons: Reason[];
  /**
   * The state.
   */
  state: "valid" | "noisy" | "unavailable" | "invalid" | "failed";
}
/**
 * One reason of a verdict.
 */
export interface Reason {
  /**
   * The cause, from a closed list, for programs.
   */
  cause:
    | "throttled"
    | "capped"
    | "steal"
    | "contention"
    | "not_running"
    | "major_faults"
    | "migration"
    | "interrupts"
    | "slow_core"
    | "drift"
    | "machine_drift"
    | "spread"
    | "two_clusters"
    | "several_modes"
    | "clock"
    | "wrong_work"
    | "too_short"
    | "not_as_asked"
    | "missing"
    | "missing_input"
    | "crashed"
    | "timed_out"
    | "interrupted";
  /**
   * What to do next; absent where nothing can be done.
   */
  remedy?: Remedy | null;
  /**
   * The cause in words, with its figure, for people.
   */
  text: string;
}
/**
 * The run.
 */
export interface Run {
  /**
   * What was asked for on the command line; empty means everything.
   */
  asked: string[];
  clock: ClockFacts;
  /**
   * The CPU the workers were pinned to.
   */
  cpu: number;
  /**
   * Why that one.
   */
  cpu_reason: string;
  /**
   * How long it took, in nanoseconds by a clock that nobody steps; absent while it goes on.
   */
  duration_ns?: number | null;
  /**
   * How thoroughly.
   */
  effort: "quick" | "standard" | "thorough";
  /**
   * When it ended; absent while it goes on, or where it was cut off.
   */
  ended?: string | null;
  /**
   * Identifier: 16 hexadecimal digits, sortable by time.
   */
  id: string;
  /**
   * What a laboratory imposed on it by the environment, such as `FATHOM_SPIN=os.syscall=40%`;
   * no history and no noise is learnt from such a run.
   */
  imposed?: string[];
  /**
   * The name that `--label` gave it.
   */
  label?: string | null;
  /**
   * Facts about the run that spoil nothing, such as settings that `--tune` was refused.
   */
  notes?: string[];
  /**
   * Records the run gives if nothing stops it.
   */
  planned: number;
  /**
   * The command that measured by hand, such as `file read`; absent for a battery of workers.
   */
  procedure?: string | null;
  /**
   * Which sampling protocol.
   */
  protocol: "median" | "trimmed";
  /**
   * The reference loop on that CPU; absent where it was not calibrated.
   */
  reference?: Reference | null;
  /**
   * The seed of every random order in the run.
   */
  seed: number;
  /**
   * When it began, RFC 3339 in UTC.
   */
  started: string;
  /**
   * How far it came.
   */
  state: "running" | "complete" | "interrupted";
  /**
   * What `--tune` changed while the run lasted; empty without it.
   */
  tuned?: string[];
  verdict: Verdict1;
}
/**
 * The clock, its calibration and how it stood the check at the end.
 */
export interface ClockFacts {
  /**
   * Further figures of the calibration, by name.
   */
  details?: {
    [k: string]: number;
  };
  /**
   * Ticks per second by calibration.
   */
  hz: number;
  /**
   * Deviation against CLOCK_MONOTONIC over the whole run, in parts per million.
   */
  monotonic_ppm?: number | null;
  /**
   * Deviation against CLOCK_MONOTONIC_RAW over the whole run, in parts per million.
   */
  raw_ppm?: number | null;
  /**
   * The cost of one start/stop pair, in nanoseconds.
   */
  read_ns: number;
  /**
   * Why the hardware counter was refused, where it was.
   */
  refused?: string | null;
  /**
   * The smallest step, in nanoseconds.
   */
  resolution_ns: number;
  /**
   * `tsc`, `cntvct`, `monotonic_raw` or `fake`.
   */
  source: string;
  /**
   * How far somebody set the wall clock during the run, in nanoseconds; 0 where it was put back.
   */
  wall_step_ns?: number | null;
}
/**
 * The reference loop of a CPU at full speed, and how many visits met it.
 */
export interface Reference {
  /**
   * What makes it full speed.
   */
  basis: "highest_frequency" | "earlier_runs" | "this_run";
  /**
   * Those of them that were clean.
   */
  clean: number;
  /**
   * The time of its part that only the frequency slows, in nanoseconds.
   */
  frequency_ns: number;
  /**
   * The time of its part that a busy sibling thread slows, in nanoseconds.
   */
  loop_ns: number;
  /**
   * Visits whose loops were compared with it.
   */
  visits: number;
}
/**
 * What holds for the run as a whole: drift of the machine, the clock's failure, a stepped
 * wall clock.
 */
export interface Verdict1 {
  /**
   * Its reasons, the weightiest first; some only when the state is `valid`: what held the number
   * where it is, such as a cap.
   */
  reasons: Reason[];
  /**
   * The state.
   */
  state: "valid" | "noisy" | "unavailable" | "invalid" | "failed";
}
/**
 * The program that made it.
 */
export interface Tool {
  /**
   * `fathom`.
   */
  name: string;
  /**
   * Its version.
   */
  version: string;
}
