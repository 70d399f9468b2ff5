//! Metrics of the kernel: entering it, making processes and threads, switching between them.
//!
//! The probes stand in files of their own; what several of them need beside them: system calls
//! made by hand, signal handlers that only count, a child process that is always reaped, two ends
//! that pass a token, memory of a known size, and claims of order.

mod child;
pub mod file_lock;
pub mod futex;
mod handler;
pub mod multiplex;
mod ordinal;
mod ping_pong;
pub mod process_fork;
pub mod ratio;
mod raw_call;
mod resident;
pub mod signal;
#[cfg(test)]
pub(crate) mod smoke;
mod sum;
pub mod switch;
pub mod syscall;
pub mod syscall_fresh;
pub mod thread_create;
pub mod vdso;
mod working_set;
