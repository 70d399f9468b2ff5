//! Names in the records of commands of the user (`fathom bench`), for writer and views.

/// The time of a command by that of another one, of which the parameters are `of` and `to`.
pub const RATIO_METRIC: &str = "bench.ratio";
/// The smallest loss that a gate detects of the command of the parameter `of`.
pub const CERTIFICATE_METRIC: &str = "bench.certificate";

pub const COMMAND: &str = "command";
/// What its name is made of, if the user gave none: `its command`.
pub const NAMED_BY: &str = "named by";
/// What else decides what a run does, as options, or `none`.
pub const SETTINGS: &str = "settings";
pub const USER: &str = "user";
pub const SYSTEM: &str = "system";
/// Text where only an upper bound is known.
pub const MEMORY: &str = "peak memory";
pub const MINOR_FAULTS: &str = "page faults";
pub const MAJOR_FAULTS: &str = "major faults";
pub const VOLUNTARY: &str = "voluntary switches";
pub const INVOLUNTARY: &str = "involuntary switches";
/// By system calls.
pub const READ: &str = "read";
pub const WRITTEN: &str = "written";
pub const DEVICE_READ: &str = "read from devices";
pub const DEVICE_WRITTEN: &str = "written to devices";
/// The number of disturbed runs, by counters.
pub const DISTURBED: &str = "disturbed runs";
/// The file of standard input.
pub const INPUT: &str = "input";
/// Where the output went: `a drained pipe`, `/dev/null`, `standard error`, or a file.
pub const OUTPUT: &str = "output";
/// What a run wrote into the pipe, and the time that this took by the price of a byte.
pub const PIPED: &str = "bytes into the pipe";
pub const PIPE_TIME: &str = "time of the pipe";
/// A command that does less work when its output is /dev/null.
pub const LESS_WORK: &str = "less work";
pub const SHELL: &str = "start of the shell";
pub const COLD: &str = "evicted files";
pub const CPU: &str = "cpu";
