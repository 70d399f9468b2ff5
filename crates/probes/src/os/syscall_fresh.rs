//! os.syscall.fresh: the first system call of a new process.

use std::arch::asm;
use std::ptr;

use fathom_measure::sampler::Fault;
use fathom_measure::{Clock, Sampler, Work};
use fathom_record::{Counters, Host, NoModel, Params, Prediction};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::child::{Child, bare_fork, leave, refused};
use super::raw_call::system_call;
use fathom_metric::order::Order;
use fathom_metric::{About, Case, Inputs, Probe, Sizes};

/// os.syscall.fresh.
pub struct SyscallFresh;

static ABOUT: About = About {
    id: "os.syscall.fresh",
    title: "first system call of a process",
    timed: "one getppid by the bare instruction, as the first thing a newly forked process does \
            (the classic protocol), between two stamps taken in that process",
    not_timed: "the fork itself; handing the stamps over, through shared memory after the second; \
                the child's end",
    model: "a bound: the same call as os.syscall{call=getppid}, met with cold translations and \
            colder caches, so at least that. How much colder has no sourced constant",
    source: "the same instructions as os.syscall{call=getppid}, plus misses; protocol: a 2016 \
             study that times getpid in fresh processes",
    pitfalls: &[
        "the C library's fork enters the kernel in the child before the program gets there: the \
         child is made by the bare clone call",
        "the first write to the stack of a new process copies a page: in the child nothing is \
         stored between the stamps, and the stamps wait in registers",
        "the program's text is not mapped in a new process until it faults: stamps and call lie in \
         one page, which the first stamp's code has brought in",
        "a single call between two stamps includes the cost of a stamp pair, which is not \
         subtracted: cpu.clock.read is the floor",
        "fresh is not quite cold: the kernel's code for the call was used by the parent shortly \
         before",
    ],
    needs: &["os.syscall"],
    published: "11.9 µs ± 11 % (2016, i5-5257U, getpid)",
    expects: Counters::TURNS,
    noise_limit: 0.10,
    ..About::BASE
};

/// A fork and its end, with room: some 300 µs each, up to 16 in a round.
const COST_NS: f64 = 60e6;

impl Probe for SyscallFresh {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        vec![Case { params: Params::none(), cost_ns: COST_NS }]
    }

    fn predict(&self, _: &Case, _: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        let source = "the same instructions, with misses in caches and translations besides";
        let order = Order { factor: 1.0, metric: "os.syscall", source };
        order.claim(&Params::one("call", "getppid"), known)
    }

    fn visit(&self, _: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let note = SharedNote::map()?;
        let first = |clock: &Clock, values: &mut [f64]| {
            values[0] = first_call_ns(clock, &note)?;
            Ok(())
        };
        sampler.run(vec![Work::single(vec![0], first)]);
        Ok(())
    }
}

/// Forks, and returns what the child's first call took.
fn first_call_ns(clock: &Clock, note: &SharedNote) -> Result<f64, Fault> {
    note.write(Note::default());
    // SAFETY: the child reads the clock, makes one bare call, writes shared memory and leaves: no
    // lock, no heap, nothing that panics, and nothing of the C library but `_exit`.
    let forked = unsafe { bare_fork() };
    if forked == 0 {
        stay_in_one_page();
        let start = clock.start();
        // SAFETY: takes no argument.
        let parent = unsafe { system_call(libc::SYS_getppid, [0; 4]) };
        let stop = clock.stop();
        note.write(Note { start, stop, parent });
        leave(0);
    }
    Child::of(forked).map_err(|error| refused("clone", &error))?.wait_for(0)?;
    let Note { start, stop, parent } = note.read();
    if parent != std::process::id() as isize {
        return Err(Fault::WrongWork(format!("the child's getppid returned {parent}")));
    }
    Ok(clock.ns(start, stop))
}

/// Puts the instructions that follow on a boundary of 256 bytes. A fork copies no page tables of
/// program text, so the child faults at each stretch of text it comes to: the stamps and the call
/// between them, some 80 bytes, must not lie across two.
#[inline(always)]
fn stay_in_one_page() {
    // SAFETY: nothing but padding.
    unsafe { asm!(".p2align 8", options(nomem, nostack, preserves_flags)) }
}

/// What the child found.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Note {
    start: u64,
    stop: u64,
    parent: isize,
}

/// A note in memory that parent and child share.
struct SharedNote(*mut Note);

impl SharedNote {
    fn map() -> Result<Self, Fault> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place the kernel chooses.
        let place = unsafe {
            mmap_anonymous(ptr::null_mut(), size_of::<Note>(), protection, MapFlags::SHARED)
        };
        place.map(|place| Self(place.cast())).map_err(|error| Fault::system("mmap", error))
    }

    fn write(&self, note: Note) {
        // SAFETY: the mapping is aligned to a page, as large as a note, and lives as long as self.
        unsafe { self.0.write_volatile(note) }
    }

    /// Read only after the child was reaped.
    fn read(&self) -> Note {
        // SAFETY: as above; any bytes are a note.
        unsafe { self.0.read_volatile() }
    }
}

impl Drop for SharedNote {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing points into it any more.
        let unmapped = unsafe { munmap(self.0.cast(), size_of::<Note>()) };
        debug_assert!(unmapped.is_ok(), "munmap refuses only a wrong address");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn the_child_hands_its_stamps_over_and_is_reaped() {
        let taken = smoke::run(&SyscallFresh);
        let sample = taken[0].1.as_ref().unwrap();
        assert!(sample.values.iter().all(|ns| *ns > 0.0), "{:?}", sample.values);
    }
}
