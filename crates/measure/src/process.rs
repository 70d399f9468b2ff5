//! Child processes: started in their own process group, tied to this process, with limits, and
//! killed together with their descendants.

mod adopted;
mod descendants;
mod errors;
mod exit;
mod output;
mod program;
mod running;
mod tie;
mod vfork;

pub use adopted::reap_adopted;
pub use descendants::{children, descendants, run_queue_ns};
pub use errors::ErrorFile;
pub use exit::{exit_text, first_error, last_words};
pub use output::{CollectError, OutputLimits};
pub use program::this_program;
pub use running::Running;
pub use tie::end_with;

#[cfg(test)]
mod tests;
