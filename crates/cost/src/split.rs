//! How much of a command's CPU time is spent in the kernel, by samples: a timer of each CPU looks
//! while the command runs (perf_event_open(2); a clock of the kernel, which needs no PMU).
//!
//! The kernel itself divides CPU time by its ticks, of which a short process sees none.

use std::collections::HashMap;
use std::io::Error;
use std::mem::size_of;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use libc::{c_int, c_ulong, pid_t};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// As large as an unprivileged process may lock, without its first page.
const RING_BYTES: usize = 512 << 10;
/// Samples of one run that surely fit.
const SAMPLES: f64 = (RING_BYTES / size_of::<SampleHeader>() / 2) as f64;
/// More often, the timer would be part of what it measures.
const PERIOD_MIN_NS: f64 = 100e3;

const TYPE_SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;
/// disabled, inherit, enable_on_exec, task.
const FLAGS: u64 = 1 | 1 << 1 | 1 << 12 | 1 << 13;
const CLOSE_ON_EXEC: c_ulong = 8;
const RECORD_EXIT: u32 = 4;
const RECORD_FORK: u32 = 7;
const RECORD_SAMPLE: u32 = 9;
/// In the records of a fork and of an exit, after the processes of the thread and of its creator.
const THREAD_AT: usize = 16;
const MODE: u16 = 7;
const KERNEL: u16 = 1;
const USER: u16 = 2;
/// In the first page of a ring.
const HEAD_AT: usize = 1024;

/// The first version of perf_event_attr.
#[repr(C)]
#[derive(Default)]
struct EventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config1: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct SampleHeader {
    kind: u32,
    mode: u16,
    bytes: u16,
}

/// Samples of one run, by where they found it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    pub user: u64,
    pub kernel: u64,
    /// Threads that ended on another CPU than that where they were created.
    pub elsewhere: u64,
}

/// Looks at what this thread starts, from its exec on, with all that it starts itself.
pub struct Splitter(Vec<Ring>);

impl Splitter {
    /// `wall_ns`: how long the command will take; `turn`: runs of a command that does always the
    /// same are not looked at in the same places.
    ///
    /// # Errors
    /// If this is not permitted (`kernel.perf_event_paranoid` above 1, without root), or a filter
    /// forbids the call.
    pub fn open(cpus: &[u32], wall_ns: f64, turn: usize) -> Result<Self, Error> {
        let period = (wall_ns / SAMPLES).max(PERIOD_MIN_NS) * (1.0 + (turn % 8) as f64 / 40.0);
        cpus.iter().map(|cpu| Ring::open(*cpu, period as u64)).collect::<Result<_, _>>().map(Self)
    }

    /// What was seen until now.
    pub fn split(&self) -> Split {
        let mut all = Split::default();
        let mut places = HashMap::<u32, [Option<u32>; 2]>::new();
        for ring in &self.0 {
            ring.add_to(&mut all, |thread, has_ended| {
                places.entry(thread).or_default()[usize::from(has_ended)] = Some(ring.cpu);
            });
        }
        let is_elsewhere = |ends: &&[Option<u32>; 2]| matches!(ends, [Some(a), Some(b)] if a != b);
        all.elsewhere = places.values().filter(is_elsewhere).count() as u64;
        all
    }
}

/// The samples of a CPU.
struct Ring {
    cpu: u32,
    memory: NonNull<u8>,
    bytes: usize,
    page: usize,
    _event: OwnedFd,
}

impl Ring {
    fn open(cpu: u32, period: u64) -> Result<Self, Error> {
        let attributes = EventAttributes {
            kind: TYPE_SOFTWARE,
            size: size_of::<EventAttributes>() as u32,
            config: CPU_CLOCK,
            period,
            flags: FLAGS,
            ..EventAttributes::default()
        };
        let (this_thread, no_group): (pid_t, c_int) = (0, -1);
        // SAFETY: the attributes are of the size that they say.
        let event = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                this_thread,
                cpu as c_int,
                no_group,
                CLOSE_ON_EXEC,
            )
        };
        if event < 0 {
            return Err(Error::last_os_error());
        }
        // SAFETY: a new descriptor, of which nobody else knows.
        let event = unsafe { OwnedFd::from_raw_fd(event as c_int) };
        let page = rustix::param::page_size();
        let bytes = page + RING_BYTES;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, where the kernel chooses.
        let memory = unsafe { mmap(null_mut(), bytes, access, MapFlags::SHARED, &event, 0) }?;
        let memory = NonNull::new(memory.cast()).expect("a mapping is not at 0");
        Ok(Self { cpu, memory, bytes, page, _event: event })
    }

    /// `note` takes the threads that were created here, and that ended here.
    fn add_to(&self, all: &mut Split, mut note: impl FnMut(u32, bool)) {
        // SAFETY: the kernel writes the position of its next sample there, aligned.
        let head = unsafe { self.memory.add(HEAD_AT).cast::<AtomicU64>().as_ref() };
        let head = head.load(Ordering::Acquire) as usize;
        fence(Ordering::Acquire);
        let mut at = 0;
        // A full ring takes no more, since nothing of it is given back.
        while at + size_of::<SampleHeader>() <= head.min(RING_BYTES) {
            // SAFETY: a whole header below the head, which the kernel writes no more; aligned, as
            // all records are of multiples of 8 bytes.
            let header =
                unsafe { self.memory.add(self.page + at).cast::<SampleHeader>().as_ptr().read() };
            let end = at + usize::from(header.bytes);
            if [RECORD_FORK, RECORD_EXIT].contains(&header.kind) && end <= head.min(RING_BYTES) {
                let place = self.page + at + THREAD_AT;
                // SAFETY: of a whole record below the head, of more bytes than these.
                let thread = unsafe { self.memory.add(place).cast::<u32>().as_ptr().read() };
                note(thread, header.kind == RECORD_EXIT);
            }
            match (header.kind, header.mode & MODE) {
                (RECORD_SAMPLE, KERNEL) => all.kernel += 1,
                (RECORD_SAMPLE, USER) => all.user += 1,
                _ => {}
            }
            at += usize::from(header.bytes).max(size_of::<SampleHeader>());
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping of `open`, to which no reference is left.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use fathom_measure::affinity;

    use super::*;

    #[expect(clippy::print_stdout, reason = "a skipped test says why")]
    fn splitter() -> Option<Splitter> {
        let opened = Splitter::open(&affinity::allowed(), 1e9, 0);
        if let Err(error) = &opened {
            println!("skipped: CPU time cannot be sampled here: {error}");
        }
        opened.ok()
    }

    fn split_of(command: &str) -> Option<Split> {
        let splitter = splitter()?;
        let status = Command::new("sh").args(["-c", command]).status().expect("a shell");
        assert!(status.success());
        Some(splitter.split())
    }

    #[test]
    fn what_a_command_and_its_children_do_is_seen_where_it_is_done() {
        let Some(user) = split_of("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; true") else {
            return;
        };
        assert!(user.user > 10 * user.kernel && user.user > 50, "{user:?}");
        let kernel = split_of("dd if=/dev/zero of=/dev/null bs=1M count=3000 2>/dev/null; true");
        let kernel = kernel.expect("it was permitted before");
        assert!(kernel.kernel > 10 * kernel.user && kernel.kernel > 50, "{kernel:?}");
    }

    #[test]
    fn threads_that_end_on_another_cpu_are_counted() {
        let [first, .., last] = affinity::allowed()[..] else { return };
        let here = format!("taskset -c {first} sh -c");
        let Some(same) = split_of(&format!("{here} 'for i in 1 2 3; do /bin/true; done'")) else {
            return;
        };
        // The first taskset itself may move.
        assert!(same.elsewhere <= 1, "{same:?}");
        let there = "for i in 1 2 3; do taskset -c";
        let other = split_of(&format!("{here} '{there} {last} /bin/true; done'"));
        assert!(other.is_some_and(|it| (3..=4).contains(&it.elsewhere)), "{other:?}");
    }

    #[test]
    fn nothing_is_seen_of_this_process_itself() {
        let Some(splitter) = splitter() else { return };
        let sum: u64 = (0..50_000_000_u64).map(std::hint::black_box).sum();
        assert_eq!((sum > 0, splitter.split()), (true, Split::default()));
    }
}
