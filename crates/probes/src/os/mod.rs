//! Metrics of the kernel: entering it, making processes and threads, switching between them.
//!
//! The probes stand in files of their own; what several of them need beside them: system calls
//! made by hand, signal handlers that only count, a child process that is always reaped, two ends
//! that pass a token, memory of a known size, and claims of order.

pub mod bandwidth;
mod child;
pub mod file_lock;
pub mod futex;
mod handler;
pub mod multiplex;
mod ordinal;
mod ping_pong;
pub mod process_exec;
pub mod process_fork;
mod program;
pub mod ratio;
mod raw_call;
mod resident;
pub mod signal;
#[cfg(test)]
pub(crate) mod smoke;
mod stream;
mod sum;
pub mod switch;
pub mod syscall;
pub mod syscall_fresh;
pub mod thread_create;
pub mod unix_connect;
pub mod vdso;
mod vfork;
mod working_set;
