//! What a program or a service should cost (`--cost`): its operations, counted under ptrace(2), at
//! the prices of this machine.
//!
//! [`trace`] follows all threads and processes of a run, [`service`] those that run already, for a
//! time; both hand their stops to [`watch`], which counts: [`calls`] says what a system call does,
//! [`descriptor`] what is behind a descriptor, [`memory`] which pages were faulted in. [`used`] is
//! what a service uses without being counted, [`split`] how much of a command's CPU time is in the
//! kernel. [`count`] is what was counted, [`table`] the metric that is the price of each operation,
//! [`price`] reads prices from results, [`terms`] multiplies.

mod calls;
mod copies;
mod count;
mod descriptor;
mod memory;
mod price;
mod ptrace;
mod service;
mod split;
mod table;
mod terms;
pub mod trace;
mod used;
mod watch;

pub use copies::Copied;
pub use count::{Counts, FaultKind, Operation, Place, Tally, Wait};
pub use service::{Counting, ServiceCounts, check_service};
pub use split::{Split, Splitter};
pub use table::{METRICS, operations_of, results};
pub use terms::{Counted, ServiceWindow, Timed, cost, service_cost};
pub use trace::TraceError;
pub use used::ServiceUse;
