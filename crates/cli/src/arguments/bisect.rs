//! The arguments of `fathom bisect`.

use clap::Args;

const EXAMPLES: &str = "\
Examples:
  fathom bisect v1.2 main --build 'make -j2' --run './prog input.txt'
  fathom bisect HEAD~64 HEAD --run './script.py'   nothing to build

Each commit is built once, in a checkout of its own in a temporary folder ($TMPDIR). The repository
is only read: HEAD, index and files stay as they are. BAD is first measured against GOOD. A commit
is bad if the whole interval of its loss is above half of that, good if all of it is below: it runs
in random turns with GOOD, as by bench. Answers may be wrong: each changes the probability of every
commit, the next one tested is that whose answer should say most, and the end is a probability of
95 %. Commits that cannot be built are passed over. Of a merge the first parent is followed.

Exit status: 0 the commits are named that hold the first bad one with 95 %, 1 a command failed, 2
wrong usage, 5 GOOD and BAD are not shown to differ, or more tests would not help, 130 Ctrl-C.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BisectArguments {
    /// A commit in which the command is fast.
    #[arg(value_name = "GOOD")]
    pub good: String,
    /// A later one in which it is slower.
    #[arg(value_name = "BAD")]
    pub bad: String,
    /// Time this command, in the folder of each build: a program with its arguments; `sh -c '…'`
    /// for a shell.
    #[arg(long, value_name = "CMD")]
    pub run: String,
    /// Build a commit by this command of sh, in its folder [default: nothing to build].
    #[arg(long, value_name = "CMD")]
    pub build: Option<String>,
    /// Run each side at most N times in a test.
    #[arg(long, value_name = "N", default_value_t = 500)]
    #[arg(value_parser = clap::value_parser!(u32).range(9..=10_000))]
    pub runs: u32,
    /// Print the answer and all tests as JSON.
    #[arg(long)]
    pub json: bool,
}
