//! `fathom bisect`: the commit that made a command slower.

mod checkout;

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use fathom_analysis::bisect::{
    BisectEnds, BisectTest, CommitAnswer, CommitBisection, LEVEL, commit_answer, ends,
};
use fathom_measure::process::exit_text;
use fathom_record::command::RATIO_METRIC;
use fathom_record::quantity::percent;
use fathom_record::{Document, Record};

use self::checkout::{Checkout, Commit, Finished, Interrupted, finish};
use crate::arguments::bisect::BisectArguments;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::terminal;

/// Pairs of runs of the first measurement.
const PAIRS: usize = 30;
/// Commits that are listed.
const LISTED: usize = 10;

/// The loss of a commit to the good one.
struct CommitLoss {
    value: f64,
    interval: [f64; 2],
    pairs: usize,
}

impl CommitLoss {
    fn text(&self) -> String {
        let sign = |value: f64| format!("{}{}", if value < 0.0 { "-" } else { "+" }, size(value));
        let [low, high] = self.interval.map(sign);
        format!("{} ({low} to {high})", sign(self.value))
    }
}

fn size(value: f64) -> String {
    percent(value.abs())
}

pub(super) fn bisect(arguments: &BisectArguments) -> anyhow::Result<Status> {
    let interrupt = Interrupt::listen().context("listen to signals")?;
    let outcome = Checkout::new(&interrupt)
        .and_then(|mut checkout| bisected(arguments, &mut checkout, &interrupt));
    match outcome {
        Err(error) if error.is::<Interrupted>() => Ok(Status::Interrupted),
        outcome => outcome,
    }
}

fn bisected(
    arguments: &BisectArguments,
    checkout: &mut Checkout<'_>,
    interrupt: &Interrupt,
) -> anyhow::Result<Status> {
    let BisectArguments { good, bad, .. } = arguments;
    let (first, commits) = checkout.commits(good, bad)?;
    let mut tests = BisectTests { arguments, checkout, interrupt, good: &first };
    let last = commits.last().context("a commit")?;
    let (test, loss) = match tests.of_ends(last)? {
        Ok(shown) => shown,
        Err(loss) => {
            let text = format!("{bad} is not shown to be slower than {good}: {}\n", loss.text());
            super::print_text(&text)?;
            return Ok(Status::Undecided);
        }
    };
    let note = format!(
        "{bad} is slower than {good}: {}; {} commits, {} pairs of runs a test",
        loss.text(),
        commits.len(),
        test.pairs
    );
    terminal::warn(&note);
    let mut all = CommitBisection::new(commits.len());
    while let Some(at) = all.next_commit() {
        let (answer, why) = tests.answer(&commits[at], test)?;
        all.take(at, answer);
        let left = all.suspects().len();
        let name = commits[at].short();
        terminal::warn(&format!("{name} {}: {why}; {left} commits left", answer.word()));
    }
    super::print_text(&found(&all, &commits, &loss))?;
    Ok(if all.is_decided() { Status::Success } else { Status::Undecided })
}

/// The answer, what it rests on, and the next step.
fn found(all: &CommitBisection, commits: &[Commit], loss: &CommitLoss) -> String {
    let set = all.suspects();
    let share: f64 = set.iter().map(|at| all.share(*at)).sum();
    let named = match set.as_slice() {
        [only] => format!("{} is the first slower commit", commits[*only].short()),
        _ => format!("one of {} commits is the first slower one", set.len()),
    };
    let mut text = format!(
        "{named} (probability {}): {}\n{} tests of {} commits\n\n",
        percent(share.min(1.0)),
        loss.text(),
        all.tests(),
        commits.len()
    );
    for at in set.iter().take(LISTED) {
        let Commit { subject, .. } = &commits[*at];
        let (name, share) = (commits[*at].short(), percent(all.share(*at)));
        text += &format!("  {name}  {share:>6}  {}\n", fathom_record::escaped(subject));
    }
    if set.len() > LISTED {
        text += &format!("  and {} more\n", set.len() - LISTED);
    }
    let why = match set.as_slice() {
        [only] => format!("\nnext: git show {}\n", commits[*only].short()),
        _ if all.is_decided() => "\nno commit between them can be built and run\n".to_owned(),
        _ => format!("\n{} is not reached: allow more runs (--runs)\n", percent(LEVEL)),
    };
    text + &why
}

struct BisectTests<'t, 'i> {
    arguments: &'t BisectArguments,
    checkout: &'t mut Checkout<'i>,
    interrupt: &'t Interrupt,
    good: &'t Commit,
}

impl BisectTests<'_, '_> {
    /// How tests are made, with the loss of the bad commit; its loss alone if that shows nothing.
    fn of_ends(
        &mut self,
        bad: &Commit,
    ) -> anyhow::Result<Result<(BisectTest, CommitLoss), CommitLoss>> {
        let most = self.arguments.runs as usize;
        let mut pairs = PAIRS.min(most);
        loop {
            let loss = self.loss(bad, pairs)?.map_err(|why| {
                anyhow::anyhow!("bisect: {} cannot be measured: {why}", bad.short())
            })?;
            match ends(loss.value, loss.interval, loss.pairs, most) {
                BisectEnds::Shown(test) => return Ok(Ok((test, loss))),
                BisectEnds::NotShown => return Ok(Err(loss)),
                BisectEnds::Again(more) => pairs = more,
            }
        }
    }

    /// With what it rests on.
    fn answer(
        &mut self,
        commit: &Commit,
        test: BisectTest,
    ) -> anyhow::Result<(CommitAnswer, String)> {
        Ok(match self.loss(commit, test.pairs)? {
            Ok(loss) => (commit_answer(loss.interval, test.limit), loss.text()),
            Err(why) => (CommitAnswer::Untestable, why),
        })
    }

    /// The loss of a commit, in turn with the good one; or why it has none.
    fn loss(
        &mut self,
        commit: &Commit,
        pairs: usize,
    ) -> anyhow::Result<Result<CommitLoss, String>> {
        let build = self.arguments.build.as_deref();
        let base = self.checkout.built(self.good, build)?.map_err(|why| {
            anyhow::anyhow!("bisect: {} cannot be built: {why}", self.good.short())
        })?;
        let head = match self.checkout.built(commit, build)? {
            Ok(folder) => folder,
            Err(why) => return Ok(Err(why)),
        };
        let file = self.checkout.file("bench.toml");
        std::fs::write(&file, self.request(&base, &head)).context("write bench.toml")?;
        let store = self.checkout.file("bench.db");
        let program = std::env::current_exe().context("find this program")?;
        let runs = pairs.to_string();
        let command = || {
            let mut command = Command::new(&program);
            command.arg("bench").arg("-f").arg(&file).arg("--store").arg(&store);
            command.args(["--json", "--warmup", "1", "--runs", &runs]);
            command
        };
        let Finished { status, output, last_words } = finish(&command, self.interrupt)?;
        if !status.success() {
            return Ok(Err(format!("--run: {} ({last_words})", exit_text(status))));
        }
        let document: Document = serde_json::from_slice(&output).context("read the result")?;
        Ok(loss_of(&document.records).ok_or_else(|| "no interval".to_owned()))
    }

    /// A file of `fathom bench` with both sides, each in the folder of its build.
    fn request(&self, base: &Path, head: &Path) -> String {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let side = |name: &str, folder: &Path| {
            let (run, folder) = (text(&self.arguments.run), text(&folder.display().to_string()));
            format!("[[command]]\nname = \"{name}\"\nrun = {run}\nfolder = {folder}\n")
        };
        side("good", base) + &side("next", head)
    }
}

fn loss_of(records: &[Record]) -> Option<CommitLoss> {
    let ratio = records.iter().find(|record| record.metric.as_str() == RATIO_METRIC)?;
    let summary = ratio.shown_summary()?;
    let interval = summary.limits()?.map(|end| end - 1.0);
    Some(CommitLoss { value: summary.median - 1.0, interval, pairs: summary.process_medians.len() })
}
