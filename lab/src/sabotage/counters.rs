//! The machine's counters, which confirm or refute the causes that a run names.

use std::mem::MaybeUninit;

/// Counters of a CPU, in ticks of 10 ms, and of reaped children: the program with its workers.
#[derive(Clone, Debug)]
pub(super) struct MachineCounters {
    pub(super) busy_ticks: f64,
    pub(super) stolen_ticks: f64,
    pub(super) interrupt_ticks: f64,
    pub(super) program_ticks: f64,
    pub(super) preempted: f64,
    pub(super) major_faults: f64,
}

impl MachineCounters {
    pub(super) fn for_cpu(cpu: u32) -> Self {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let name = format!("cpu{cpu} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or_default();
        let fields: Vec<f64> =
            line.split_whitespace().map(|field| field.parse().unwrap_or(0.0)).collect();
        // user nice system idle iowait irq softirq steal, proc_stat(5).
        let sum = |indices: &[usize]| indices.iter().filter_map(|at| fields.get(*at)).sum();
        let program = children();
        let ticks = |time: libc::timeval| time.tv_sec as f64 * 100.0 + time.tv_usec as f64 / 1e4;
        Self {
            busy_ticks: sum(&[0, 1, 2, 5, 6]),
            stolen_ticks: sum(&[7]),
            interrupt_ticks: sum(&[5, 6]),
            program_ticks: ticks(program.ru_utime) + ticks(program.ru_stime),
            preempted: program.ru_nivcsw as f64,
            major_faults: program.ru_majflt as f64,
        }
    }

    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            busy_ticks: self.busy_ticks - earlier.busy_ticks,
            stolen_ticks: self.stolen_ticks - earlier.stolen_ticks,
            interrupt_ticks: self.interrupt_ticks - earlier.interrupt_ticks,
            program_ticks: self.program_ticks - earlier.program_ticks,
            preempted: self.preempted - earlier.preempted,
            major_faults: self.major_faults - earlier.major_faults,
        }
    }
}

fn children() -> libc::rusage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: writable memory of the type that the call writes; a zeroed `rusage` is valid.
    unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    }
}
