//! Other processes: started in a group of their own, tied to this one, run within limits, and
//! killed with all that they started.

mod descendants;
mod exit;
mod output;
mod program;
mod running;
mod tie;

pub use descendants::{children, descendants};
pub use exit::{exit_text, last_words};
pub use output::{CollectError, Limits};
pub use program::this_program;
pub use running::Running;
pub use tie::end_with;

#[cfg(test)]
mod tests;
