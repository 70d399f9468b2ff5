//! os.futex.uncontended: a mutex that nobody else wants.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

use fathom_measure::sampler::Fault;
use fathom_measure::{Sampler, Work};
use fathom_record::{Host, NoModel, Origin, Params, Prediction};

use super::raw_call::RawCall;
use super::syscall::tried;
use crate::uarch;
use fathom_metric::order::{Order, earlier};
use fathom_metric::{About, Case, Inputs, Parameter, Probe, Sizes};

/// os.futex.uncontended.
pub struct FutexUncontended;

static ABOUT: About = About {
    id: "os.futex.uncontended",
    title: "futex nobody else wants",
    timed: "op=lock_unlock: a compare-exchange that takes a free lock word and the exchange that \
            gives it back, with the two comparisons that decide that no system call is needed. \
            op=wake: one FUTEX_WAKE by the bare instruction, of a private futex on which nobody \
            sleeps",
    not_timed: "what a C library does around the two instructions: its call, the kind of the \
                mutex, the owner's name; contention, which is another metric",
    model: "lock_unlock: (LOCK CMPXCHG + XCHG with memory) cycles ÷ core frequency, on x86-64: \
            each waits for the one before, both being full barriers on one word. wake: an order, \
            ≥ os.syscall{call=getppid}",
    source: "U. Drepper, Futexes are tricky (2011), mutex2, and glibc sysdeps/nptl/lowlevellock.h: \
             the two instructions; data/uarch.toml: lock_cmpxchg_cycles, xchg_memory_cycles; \
             Linux kernel/futex/waketest.c, futex_wake: a look into the hash bucket",
    pitfalls: &[
        "in a process with one thread glibc's pthread_mutex_lock leaves out the lock prefix (2.34 \
         and later), so a loop over it there measures no atomic instruction: the pair is written \
         out, as glibc makes it once there is a second thread, and as Rust's std::sync::Mutex does",
        "a loop that only locks, or that never looks at the result, may have taken nothing: each \
         iteration counts only if the word was free and was locked by it",
        "the word stays in this core's first-level cache: a lock that travels between cores costs \
         ten times more with no contention at all",
        "a wake with nobody asleep is what a careless unlock pays each time",
    ],
    parameters: &[Parameter {
        name: "op",
        values: "lock_unlock, wake",
        meaning: "lock and unlock, no system call · FUTEX_WAKE with nobody asleep: one",
    }],
    needs: &["cpu.frequency", "os.syscall"],
    ..About::BASE
};

const LOCK_UNLOCK: &str = "lock_unlock";
const OPERATIONS: [&str; 2] = [LOCK_UNLOCK, "wake"];
const FREE: u32 = 0;
const LOCKED: u32 = 1;

impl Probe for FutexUncontended {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        OPERATIONS.map(|op| Case::usual(Params::one("op", op))).into()
    }

    fn predict(&self, case: &Case, host: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        if case.params.text("op") == Some(LOCK_UNLOCK) {
            return by_two_instructions(host, known);
        }
        let source = "the same entry and exit, and a look into a hash table between them: Linux \
                      kernel/futex/waketest.c, futex_wake";
        let order = Order { factor: 1.0, metric: "os.syscall", source };
        order.claim(&Params::one("call", "getppid"), known)
    }

    fn visit(&self, cases: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let word = AtomicU32::new(FREE);
        let mut works = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            if case.params.text("op") == Some(LOCK_UNLOCK) {
                let word = &word;
                works.push(Work::batched(index, move |pairs| lock_unlock([word; 2], pairs)));
                continue;
            }
            match wake(&word) {
                Ok(call) => works.push(Work::batched(index, move |calls| call.repeat(calls))),
                Err(fault) => sampler.fault(index, fault),
            }
        }
        sampler.run(works);
        Ok(())
    }
}

fn by_two_instructions(host: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
    let row = uarch::row_for(host)?;
    let (lock, unlock) = (row.sourced("lock_cmpxchg_cycles")?, row.sourced("xchg_memory_cycles")?);
    let hz = earlier("cpu.frequency", &Params::none(), known)?;
    let hardware = (lock.value + unlock.value) * 1e9 / hz;
    let formula = "(LOCK CMPXCHG + XCHG with memory) ÷ frequency";
    let source = format!("{}; {}", lock.source, unlock.source);
    Ok(Prediction::sum(hardware, 0.0, 0.3, formula, &source)
        .with_input("LOCK CMPXCHG cycles", lock.value, row.origin())
        .with_input("XCHG with memory cycles", unlock.value, row.origin())
        .with_input("frequency", hz, Origin::this_run("cpu.frequency"))
        .otherwise("the pair overlaps with its neighbours, or the line is not this core's own"))
}

/// Locks the first word and unlocks the second, and returns how often the one was free and the
/// other locked. They are the same word, but for a test that would see the difference.
fn lock_unlock(words: [&AtomicU32; 2], pairs: u64) -> u64 {
    let [taken, given] = black_box(words);
    let mut done = 0;
    for _ in 0..pairs {
        let lock = taken.compare_exchange(FREE, LOCKED, Ordering::Acquire, Ordering::Relaxed);
        let held = given.swap(FREE, Ordering::Release);
        done += u64::from(lock.is_ok() & (held == LOCKED));
    }
    done
}

/// A wake on the word, tried once. The word must outlive it.
fn wake(word: &AtomicU32) -> Result<RawCall, Fault> {
    let operation = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;
    let arguments = [word.as_ptr() as usize, operation, 1, 0];
    // SAFETY: a wake looks at the word's address only, and the visit that uses the call keeps the
    // word until its last repetition. Nobody sleeps there: it wakes none.
    let call = unsafe { RawCall::new(libc::SYS_futex, arguments, 0) };
    tried("wake", call, call.repeat(1), None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn both_operations_do_their_work() {
        let taken = smoke::run(&FutexUncontended);
        assert!(taken.iter().all(|(_, sample)| sample.is_ok()), "no sandbox forbids a futex");
    }

    #[test]
    fn a_lock_that_somebody_holds_is_not_counted() {
        let word = AtomicU32::new(LOCKED);
        assert_eq!(lock_unlock([&word; 2], 1), 0, "it was taken by another");
        assert_eq!(lock_unlock([&word; 2], 1000), 1000);
        assert_eq!(word.load(Ordering::Relaxed), FREE);
        let another = AtomicU32::new(FREE);
        assert_eq!(lock_unlock([&word, &another], 1), 0, "nobody held what was given back");
    }

    #[test]
    fn a_wake_that_wakes_somebody_is_not_counted() {
        let _alone = smoke::alone();
        static WORD: AtomicU32 = AtomicU32::new(FREE);
        let call = wake(&WORD).unwrap();
        let sleeper = std::thread::spawn(|| {
            let operation = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
            let second = libc::timespec { tv_sec: 5, tv_nsec: 0 };
            let arguments =
                [WORD.as_ptr() as usize, operation, FREE as usize, &raw const second as usize];
            // SAFETY: the word is static and the time lives until the call returns.
            unsafe { super::super::raw_call::system_call(libc::SYS_futex, arguments) }
        });
        let woken = (0..5000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            call.repeat(1) == 0
        });
        assert!(woken, "the wake that found the sleeper returned 1, not 0");
        assert_eq!(sleeper.join().unwrap(), 0);
        assert_eq!(call.repeat(10), 10);
    }

    fn predicted(op: &str, family: u32) -> Result<Prediction, NoModel> {
        let mut host = Host::default();
        host.cpu.architecture = "x86_64".to_owned();
        host.cpu.vendor = Some("AuthenticAMD".to_owned());
        (host.cpu.family, host.cpu.model_number) = (Some(family), Some(17));
        let records = [
            smoke::record("cpu.frequency", &Params::none(), 2e9, 1e6),
            smoke::record("os.syscall", &Params::one("call", "getppid"), 100.0, 1.0),
        ];
        let case = Case::usual(Params::one("op", op));
        FutexUncontended.predict(&case, &host, &Inputs::new(&records))
    }

    #[test]
    fn the_pair_is_predicted_from_its_two_instructions() {
        let prediction = predicted(LOCK_UNLOCK, 25).unwrap();
        assert!((prediction.value.unwrap() - (9.4 + 7.9) / 2.0).abs() < 1e-9);
        assert_eq!(prediction.inputs.len(), 3);
        let none = predicted(LOCK_UNLOCK, 99).unwrap_err();
        let is_named = |figure: &str| figure == "lock_cmpxchg_cycles";
        assert!(matches!(&none, NoModel::NotPublished { figure, .. } if is_named(figure)));
        assert_eq!(predicted("wake", 25).unwrap().low, Some(100.0));
    }
}
