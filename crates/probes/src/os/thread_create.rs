//! os.thread.create and os.thread.create_join: a thread that returns at once.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use fathom_measure::sampler::Fault;
use fathom_measure::{Clock, Sampler, Work};
use fathom_record::{Counters, Host, NoModel, Params, Prediction};

use super::child::refused;
use fathom_metric::order::Order;
use fathom_metric::{About, Case, Inputs, Probe, Sizes};

/// os.thread.create.
pub static THREAD_CREATE: ThreadCreate = ThreadCreate { about: &CREATE, joined: false };
/// os.thread.create_join.
pub static THREAD_CREATE_JOIN: ThreadCreate = ThreadCreate { about: &CREATE_JOIN, joined: true };

/// Creating a thread, alone or with joining it.
pub struct ThreadCreate {
    about: &'static About,
    /// Whether the second stamp is taken after the join.
    joined: bool,
}

const PUBLISHED: &str = "22.7 µs ± 36 % (2016, i5-5257U)";
const WARM: &str = "the C library keeps the stacks of ended threads: the first creation maps one, \
                    later ones take it from the cache. Two creations before the first sample are \
                    warm-up, so warm creations are measured";
const ONE_CPU: &str = "creator and thread share one CPU: no migration and no idle CPU to wake, \
                       which a thread placed elsewhere would cost";

static CREATE: About = About {
    id: "os.thread.create",
    title: "creating a thread",
    timed: "pthread_create with default attributes until it returns in the creator",
    not_timed: "the thread's own work, an addition by which it is seen to have run, and joining \
                it, which is done before the next; mapping a stack, which warm creations are \
                spared",
    model: "a bound: the stack is prepared and cloned with, so at least one system call",
    source: "bound: glibc nptl/pthread_create.c and allocatestack.c: at least a clone",
    pitfalls: &[
        WARM,
        ONE_CPU,
        "the new thread may run before pthread_create returns; then its whole life is in the time",
    ],
    needs: &["os.syscall"],
    published: PUBLISHED,
    expects: Counters::TURNS,
    noise_limit: 0.10,
    ..About::BASE
};

static CREATE_JOIN: About = About {
    id: "os.thread.create_join",
    title: "creating and joining a thread",
    timed: "pthread_create with default attributes, the thread's life of one addition, and \
            pthread_join until it returns in the creator: with two switches on one CPU",
    not_timed: "mapping a stack, which warm creations are spared",
    model: "a bound: at least os.thread.create, which it contains",
    source: "bound: the one contains the other",
    pitfalls: &[WARM, ONE_CPU],
    needs: &["os.thread.create"],
    published: PUBLISHED,
    expects: Counters::TURNS,
    noise_limit: 0.10,
    ..About::BASE
};

/// A thread's life, with room: some 50 µs each, up to 16 in a round.
const COST_NS: f64 = 10e6;

impl Probe for ThreadCreate {
    fn about(&self) -> &'static About {
        self.about
    }

    fn cases(&self, _: &Host, _: &Sizes) -> Vec<Case> {
        vec![Case { params: Params::none(), cost_ns: COST_NS }]
    }

    fn predict(&self, _: &Case, _: &Host, known: &Inputs<'_>) -> Result<Prediction, NoModel> {
        if self.joined {
            let source = "the same creation, and the join besides";
            let order = Order { factor: 1.0, metric: "os.thread.create", source };
            return order.claim(&Params::none(), known);
        }
        let source = "contains a system call, clone, that does more than getppid";
        let order = Order { factor: 1.0, metric: "os.syscall", source };
        order.claim(&Params::one("call", "getppid"), known)
    }

    fn visit(&self, _: &[Case], sampler: &mut Sampler) -> Result<(), Fault> {
        let (ran, mut created) = (AtomicU64::new(0), 0);
        let operation = |clock: &Clock, values: &mut [f64]| {
            let start = clock.start();
            // SAFETY: the thread is joined below, before `ran` ends.
            let thread = unsafe { Thread::create(&ran) }?;
            let made = clock.stop();
            thread.join()?;
            let joined = clock.stop();
            created += 1;
            values[0] = clock.ns(start, if self.joined { joined } else { made });
            match ran.load(Ordering::Relaxed) {
                count if count == created => Ok(()),
                count => Err(Fault::WrongWork(format!("{count} of {created} threads ran"))),
            }
        };
        sampler.run(vec![Work::single(vec![0], operation)]);
        Ok(())
    }
}

/// A thread that counts itself and ends.
struct Thread {
    id: libc::pthread_t,
}

impl Thread {
    /// # Safety
    /// The thread must be joined before `ran` ends: it writes to it.
    #[inline]
    unsafe fn create(ran: &AtomicU64) -> Result<Self, Fault> {
        let mut id = MaybeUninit::<libc::pthread_t>::uninit();
        let argument = ptr::from_ref(ran).cast_mut().cast();
        // SAFETY: the id is written before the call returns; null asks for default attributes;
        // `count_in` expects what it gets, which the caller keeps until the thread is joined.
        let status =
            unsafe { libc::pthread_create(id.as_mut_ptr(), ptr::null(), count_in, argument) };
        match status {
            // SAFETY: a creation that succeeded wrote the id.
            0 => Ok(Self { id: unsafe { id.assume_init() } }),
            errno => Err(refused("pthread_create", &std::io::Error::from_raw_os_error(errno))),
        }
    }

    #[inline]
    fn join(self) -> Result<(), Fault> {
        // SAFETY: the thread was created joinable and is joined once: this takes it by value.
        match unsafe { libc::pthread_join(self.id, ptr::null_mut()) } {
            0 => Ok(()),
            errno => Err(Fault::system("pthread_join", std::io::Error::from_raw_os_error(errno))),
        }
    }
}

/// The thread's whole life.
extern "C" fn count_in(ran: *mut c_void) -> *mut c_void {
    // SAFETY: the argument is the counter that `Thread::create` was given, which outlives the
    // thread.
    unsafe { &*ran.cast::<AtomicU64>() }.fetch_add(1, Ordering::Relaxed);
    ptr::null_mut()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smoke;

    #[test]
    fn every_thread_runs_and_is_joined() {
        for probe in [&THREAD_CREATE, &THREAD_CREATE_JOIN] {
            let taken = smoke::run(probe);
            let sample = taken[0].1.as_ref().unwrap();
            assert!(sample.values.iter().all(|ns| *ns > 0.0), "{:?}", sample.values);
        }
    }
}
