//! `fathom transfer`: files from a sending to a receiving end, by every path and setting, in
//! randomised complete blocks; the effect of each factor.

mod cell;
mod claims;
mod metrics;
mod options;
mod page;
pub mod place;
mod procedure;
mod records;
mod run;
mod sender;
mod set;

use fathom_metric::Command;

pub use options::TransferOptions;

/// The command, for the registry.
pub const COMMAND: Command = Command::for_procedure::<TransferOptions>("transfer", metrics::ALL);
