//! os.thread.create and os.thread.create_join: a thread that returns immediately.

use std::ffi::c_void;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::child::creation_fault;
use crate::prelude::*;

pub static THREAD_CREATE: ThreadCreate = ThreadCreate { about: &CREATE, joined: false };
pub static THREAD_CREATE_JOIN: ThreadCreate = ThreadCreate { about: &CREATE_JOIN, joined: true };

/// Creating a thread, with or without joining it.
pub struct ThreadCreate {
    about: &'static About,
    joined: bool,
}

const BASE: About = About { published: "22.7 µs ± 36 % (2016, i5-5257U)", ..super::TURNS };
const WARM: &str = "the C library caches the stacks of exited threads: only the first creation \
                    maps one. Two warm-up creations precede the first sample, so warm creations \
                    are measured";
const ONE_CPU: &str = "creator and thread share one CPU: a thread placed on another CPU would also \
                       cost a migration and the wake-up of an idle CPU";

static CREATE: About = About {
    id: "os.thread.create",
    title: "creating a thread",
    timed: "pthread_create with default attributes until it returns in the creator",
    not_timed: "the thread's work (incrementing a counter, which proves that it ran) and joining \
                it, which precedes the next creation; mapping a stack, which is cached",
    model: "a bound: at least one system call, clone. No value: what clone(2) allocates is known \
            from this metric alone",
    source: "bound: glibc nptl/pthread_create.c and allocatestack.c: at least a clone",
    pitfalls: &[
        WARM,
        ONE_CPU,
        "the new thread may run before pthread_create returns; the time then includes its whole \
         run",
    ],
    needs: &["os.syscall"],
    ..BASE
};

static CREATE_JOIN: About = About {
    id: "os.thread.create_join",
    title: "creating and joining a thread",
    timed: "pthread_create with default attributes, the thread's run (incrementing a counter), and \
            pthread_join until it returns in the creator: includes two switches on one CPU",
    not_timed: "mapping a stack, which is cached",
    model: "a bound: at least os.thread.create, which it contains. No value: the cost of an exit \
            and its wake-up is known from this metric alone",
    source: "bound: it contains os.thread.create",
    pitfalls: &[WARM, ONE_CPU],
    needs: &["os.thread.create"],
    ..BASE
};

/// An upper estimate: 50 µs for each thread, up to 16 in a round.
const COST_NS: f64 = 4e6;

metric!(ThreadCreate.about);

impl Probe for ThreadCreate {
    fn cases(&self, _: &Host, _: &Sizes) -> Vec<ProbeCase> {
        vec![ProbeCase { params: Params::none(), cost_ns: COST_NS }]
    }

    fn predict(&self, _: &ProbeCase, _: &Host, known: &Inputs<'_>) -> Model {
        if self.joined {
            let source = "the same creation, plus the join";
            return at_least("os.thread.create", &Params::none(), source, known);
        }
        let source = "contains a system call, clone, that does more than getppid";
        at_least_getppid(1.0, source, known)
    }

    fn visit(&self, _: &[ProbeCase], sampler: &mut Sampler) -> Result<()> {
        let (ran, mut created) = (AtomicU64::new(0), 0);
        let operation = |clock: &Clock| {
            let start = clock.start();
            // SAFETY: the thread is joined below, before `ran` is dropped.
            let thread = unsafe { create(&ran) }?;
            let returned = clock.stop();
            join(thread)?;
            let joined = clock.stop();
            created += 1;
            let ns = clock.ns(start, if self.joined { joined } else { returned });
            // Relaxed: joining orders the increment before this load.
            match ran.load(Ordering::Relaxed) {
                count if count == created => Ok(ns),
                count => Err(SamplerFault::WrongWork(format!("{count} of {created} threads ran"))),
            }
        };
        sampler.run(vec![single(0, 1, operation)]);
        Ok(())
    }
}

/// Creates a thread that increments `ran` and exits.
///
/// # Safety
/// The thread must be joined before `ran` is dropped.
#[inline]
unsafe fn create(ran: &AtomicU64) -> Result<libc::pthread_t> {
    let mut id = MaybeUninit::<libc::pthread_t>::uninit();
    let argument = ptr::from_ref(ran).cast_mut().cast();
    // SAFETY: the call writes the id; null means default attributes; the argument is the counter
    // that `increment` expects, which the caller keeps until the thread is joined.
    match unsafe { libc::pthread_create(id.as_mut_ptr(), ptr::null(), increment, argument) } {
        // SAFETY: a successful call wrote the id.
        0 => Ok(unsafe { id.assume_init() }),
        errno => Err(creation_fault("pthread_create", &io::Error::from_raw_os_error(errno))),
    }
}

#[inline]
fn join(thread: libc::pthread_t) -> Result<()> {
    // SAFETY: the thread was created joinable, and the only caller joins it once.
    match unsafe { libc::pthread_join(thread, ptr::null_mut()) } {
        0 => Ok(()),
        errno => Err(SamplerFault::system("pthread_join", io::Error::from_raw_os_error(errno))),
    }
}

extern "C" fn increment(ran: *mut c_void) -> *mut c_void {
    // SAFETY: the argument is the counter given to `create`, which outlives the thread.
    unsafe { &*ran.cast::<AtomicU64>() }.fetch_add(1, Ordering::Relaxed);
    ptr::null_mut()
}
