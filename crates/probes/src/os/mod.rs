//! Metrics of the kernel: entering it, making processes and threads, switching between them.
//!
//! The probes stand in files of their own; what several of them need beside them: system calls
//! made by hand, signal handlers that only count, a child process that is always reaped, ends that
//! pass a token through links of many kinds, and shared memory.

pub mod bandwidth;
pub(crate) mod child;
pub mod file_lock;
pub mod futex;
mod handler;
mod link;
pub mod multiplex;
mod ping_pong;
pub mod process_exec;
pub mod process_fork;
mod program;
pub mod ratio;
mod raw_call;
pub mod round_trip;
pub(crate) mod shared;
pub mod signal;
mod stream;
pub mod switch;
pub mod switch_ring;
pub mod syscall;
pub mod syscall_fresh;
pub mod thread_create;
mod turns;
pub mod unix_connect;
pub mod vdso;
mod vfork;
pub mod wake;
mod working_set;
