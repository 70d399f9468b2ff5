//! Trial: settings of the machine, each measured off and on in random turns (`doctor --try`).
//!
//! [`knob`] lists what may be changed, as data; nothing else is. [`target`] reads and writes a
//! setting, [`journal`] has its old value on disk before it is changed, [`changes`] changes and
//! restores. [`factor`] is a knob with its two values here, [`request`] what is asked: factors that
//! interact are one trial. [`turns`] has the order and the number of measurements, [`workload`]
//! makes one: this program in a process of its own, as on a command line. [`outcome`] makes ratios
//! of them, [`procedure`] records.
//!
//! It never writes a file that lasts beyond a boot, but its journal.

mod changes;
mod factor;
mod journal;
pub mod knob;
mod outcome;
mod procedure;
mod request;
mod target;
mod turns;
mod workload;

pub use changes::{ChangeError, Changes};
pub use factor::TrialFactor;
pub use journal::{Recovery, recover, state_folder};
pub use outcome::{TrialOutcome, TrialPass, outcomes};
pub use procedure::{TrialCut, TrialRun};
pub use request::{ALL, Trial, TrialRequest, TrialSubject};
pub use target::TrialMachine;
pub use turns::{TrialPlan, TrialTurns};
pub use workload::{TrialFigure, TrialWorkload, WorkloadError};
