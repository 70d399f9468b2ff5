//! os.futex.uncontended: lock and unlock of an uncontended mutex, and a wake without a waiter.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};

use super::raw_call::RawCall;
use super::syscall::verified;
use crate::prelude::*;

metric!(FutexUncontended, ABOUT);

static ABOUT: About = About {
    id: "os.futex.uncontended",
    title: "uncontended futex",
    timed: "op=lock_unlock: the compare-exchange that acquires a free lock word and the exchange \
            that releases it, with the two comparisons that skip the system calls. op=wake: one \
            FUTEX_WAKE by the inlined instruction, of a private futex without waiters",
    not_timed: "the C library's overhead: the function call, the mutex type, storing the owner; \
                contention",
    model: "lock_unlock on x86-64: (LOCK CMPXCHG + XCHG with memory) cycles ÷ core frequency, ± \
            20 %: the two are dependent, as full barriers on one word; a bracket, no value, where \
            LOCK CMPXCHG is inferred from other instructions. wake: os.syscall{call=getppid} + \
            half of lock_unlock (one locked instruction), ± 30 %",
    source: "U. Drepper, Futexes are tricky (2011), mutex2, and glibc sysdeps/nptl/lowlevellock.h: \
             the two instructions; data/uarch.toml: lock_cmpxchg_cycles, xchg_memory_cycles; \
             Linux kernel/futex/waitwake.c, futex_wake: a hash bucket lookup",
    pitfalls: &[
        "in a single-threaded process glibc's pthread_mutex_lock omits the lock prefix (2.34 and \
         later), so a loop over it measures no atomic instruction: here the pair is inlined, as \
         glibc executes it in a multi-threaded process, and as Rust's std::sync::Mutex does",
        "a loop that ignores the results may not have locked: an iteration counts only if the word \
         was free and this iteration locked it",
        "the word stays in this core's L1: a lock that moves between cores costs ten times as much \
         even without contention",
        "an unlock that does not track waiters pays for a wake each time, also without waiters",
    ],
    parameters: &[Parameter::new(
        "op",
        "lock_unlock, wake",
        "lock and unlock without system call · FUTEX_WAKE without waiters",
    )],
    needs: &["cpu.frequency", "os.syscall"],
    ..About::BASE
};

const LOCK_UNLOCK: &str = "lock_unlock";
const OPERATIONS: [&str; 2] = [LOCK_UNLOCK, "wake"];
const FREE: u32 = 0;
const LOCKED: u32 = 1;

impl Probe for FutexUncontended {
    fn cases(&self, _: &Host, _: &Sizes) -> Vec<ProbeCase> {
        OPERATIONS.map(|op| ProbeCase::usual(Params::one("op", op))).into()
    }

    fn predict(&self, case: &ProbeCase, host: &Host, known: &Inputs<'_>) -> Model {
        if case.params.text("op") == Some(LOCK_UNLOCK) {
            return predict_lock_unlock(host, known);
        }
        let lock_unlock = Params::one("op", LOCK_UNLOCK);
        let sum = Sum {
            terms: &[Term::once("os.syscall", getppid()), Term::new(0.5, ABOUT.id, lock_unlock)],
            tolerance: 0.3,
            source: "Linux kernel/futex/waitwake.c, futex_wake: the same entry and exit, a hash \
                     table lookup, and a full barrier before it counts the waiters",
            otherwise: "a cold hash table, or a sandbox that looks at the call",
        };
        let mainly_a_call = sum.predict(known).map(Prediction::self_consistent);
        mainly_a_call.or_else(|_| at_least_getppid(1.0, sum.source, known))
    }

    fn visit(&self, cases: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let word = AtomicU32::new(FREE);
        let mut works = Vec::new();
        for (index, case) in cases.iter().enumerate() {
            if case.params.text("op") == Some(LOCK_UNLOCK) {
                let word = &word;
                works.push(SamplerWork::batched(index, move |pairs| lock_unlock([word; 2], pairs)));
                continue;
            }
            match wake(&word) {
                Ok(call) => {
                    works.push(SamplerWork::batched(index, move |calls| call.repeat(calls)))
                }
                Err(fault) => sampler.fault(index, fault),
            }
        }
        sampler.run(works);
        Ok(())
    }
}

fn predict_lock_unlock(host: &Host, known: &Inputs<'_>) -> Model {
    let row = uarch::row_for(host)?;
    let is_inferred = row.sourced("lock_cmpxchg_cycles").is_err();
    let lock = row.for_bound("lock_cmpxchg_cycles")?;
    let unlock = row.sourced("xchg_memory_cycles")?;
    let hz = earlier("cpu.frequency", &Params::none(), known)?;
    let hardware = (lock.value + unlock.value) * 1e9 / hz;
    let formula = "(LOCK CMPXCHG + XCHG with memory) ÷ frequency";
    let source = format!("{}; {}", lock.source, unlock.source);
    let value = Prediction::sum(hardware, 0.0, 0.2, formula, &source);
    Ok(if is_inferred { value.as_bracket() } else { value }
        .with_input("LOCK CMPXCHG cycles", lock.value, row.origin())
        .with_input("XCHG with memory cycles", unlock.value, row.origin())
        .with_quantity("frequency", hz, Unit::Hertz, Origin::this_run("cpu.frequency"))
        .otherwise("adjacent pairs overlap, or the cache line is shared with another core"))
}

/// Locks the first word and unlocks the second; returns how often the first was free and the second
/// locked. Both are the same word, except in a test. `black_box` hides that from the compiler.
fn lock_unlock(words: [&AtomicU32; 2], pairs: u64) -> u64 {
    let [to_lock, to_unlock] = black_box(words);
    let mut done = 0;
    for _ in 0..pairs {
        // The orders of a mutex. On x86-64 both are locked instructions with any order.
        let lock = to_lock.compare_exchange(FREE, LOCKED, Ordering::Acquire, Ordering::Relaxed);
        let previous = to_unlock.swap(FREE, Ordering::Release);
        // Branch-free, so that the count adds no prediction to the pair.
        done += u64::from(lock.is_ok() & (previous == LOCKED));
    }
    done
}

/// A wake on the word, made once. The word must outlive it.
fn wake(word: &AtomicU32) -> Result<RawCall> {
    let operation = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;
    let arguments = [word.as_ptr() as usize, operation, 1, 0];
    // SAFETY: a wake uses only the word's address, and the visit that uses the call keeps the word
    // until its last repetition.
    let call = unsafe { RawCall::new(libc::SYS_futex, arguments, 0) };
    verified("wake", call, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn failed_lock_or_unlock_is_not_counted() {
        let word = AtomicU32::new(LOCKED);
        assert_eq!(lock_unlock([&word; 2], 1), 0, "already locked");
        assert_eq!(lock_unlock([&word; 2], 1000), 1000);
        assert_eq!(word.load(Ordering::Relaxed), FREE);
        let another = AtomicU32::new(FREE);
        assert_eq!(lock_unlock([&word, &another], 1), 0, "unlocked a free word");
    }

    #[test]
    fn wake_of_a_waiter_is_not_counted() {
        static WORD: AtomicU32 = AtomicU32::new(FREE);
        let call = wake(&WORD).unwrap();
        let sleeper = std::thread::spawn(|| {
            let operation = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
            let arguments = [WORD.as_ptr() as usize, operation, FREE as usize, 0];
            // SAFETY: the word is static; there is no timeout.
            unsafe { super::super::raw_call::system_call(libc::SYS_futex, arguments) }
        });
        let is_woken = smoke::eventually(|| call.repeat(1) == 0);
        assert!(is_woken, "a wake of the waiter returns 1, not 0");
        assert_eq!(sleeper.join().unwrap(), 0);
        assert_eq!(call.repeat(10), 10);
    }
}
