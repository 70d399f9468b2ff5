//! Names in the records of tried settings (`fathom doctor --try`), for writer and views.

/// A number with a setting changed by the number without, in turns. Its parameters are `remedy`
/// and `of`: the metric, `command`, or what a load has; with the parameters of that.
pub const TRIAL_METRIC: &str = "doctor.try";

/// Old and new value: `bbr → cubic`.
pub const CHANGE: &str = "change";
/// Medians with the old and the new value.
pub const OLD: &str = "before";
pub const NEW: &str = "after";
/// What was measured.
pub const MEASURED: &str = "measured";
/// Shares of the measurements: disturbed by others, and with the core in its fastest state.
pub const DISTURBED: &str = "disturbed measurements";
pub const FASTEST: &str = "core in its fastest state";
/// The rule of the doctor whose remedy it is.
pub const RULE: &str = "rule";
/// What makes it permanent.
pub const PERMANENT: &str = "permanent";
/// Of a number that is not to get better, but may get worse.
pub const BESIDE: &str = "beside";
/// Of two settings, how much the effect of the first one differs with the second one.
pub const INTERACTION: &str = "interaction";
