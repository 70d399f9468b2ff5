//! What a command should cost (`--cost`): its operations, counted in one run under ptrace(2), at
//! the prices of this machine.
//!
//! [`trace`] follows all threads and processes of a run and hands their stops to [`watch`], which
//! counts: [`calls`] says what a system call does, [`descriptor`] what is behind a descriptor,
//! [`memory`] which pages were faulted in. [`count`] is what was counted, [`table`] the metric that
//! is the price of each operation, [`price`] reads prices from results, [`terms`] multiplies.

mod calls;
pub(crate) mod count;
mod descriptor;
mod memory;
mod price;
mod ptrace;
pub(crate) mod table;
pub(crate) mod terms;
#[cfg(test)]
mod tests;
pub(crate) mod trace;
mod watch;
#[cfg(test)]
mod work;
