//! `fathom bisect`: the commit that made a command slower.

mod checkout;

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use fathom_analysis::bisect::{
    BisectEnds, BisectTest, CommitAnswer, CommitBisection, commit_answer, ends,
};
use fathom_measure::process::exit_text;
use fathom_record::command::RATIO_METRIC;
use fathom_record::quantity::{counted, percent};
use fathom_record::{Document, Record};
use serde_json::json;

use self::checkout::{Checkout, Commit, Interrupted, finish};
use crate::arguments::bisect::BisectArguments;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::terminal;

/// Pairs of runs of the first measurement.
const PAIRS: usize = 30;
/// Commits that are listed.
const LISTED: usize = 10;
/// A smaller loss is none (METHOD 27).
const EFFECT_MIN: f64 = 0.01;

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
        "{bad} is slower than {good}: {}; {}, {} pairs of runs a test; bad is what is slower by \
         more than {}",
        loss.text(),
        counted(commits.len(), "commit"),
        test.pairs,
        size(test.limit)
    );
    terminal::warn(&note);
    let mut all = CommitBisection::new(commits.len());
    let mut tested = Vec::new();
    while let Some(at) = all.next_commit() {
        let likeliest = |all: &CommitBisection| {
            let at = all.likeliest();
            format!("likeliest {} ({})", commits[at].short(), percent(all.share(at)))
        };
        let answered = tests.answer(&commits[at], test).inspect_err(|error| {
            if error.is::<Interrupted>() && all.tests() > 0 {
                terminal::warn(&format!("interrupted; {}", likeliest(&all)));
            }
        });
        let (answer, measured) = answered?;
        all.take(at, answer);
        let (name, why) =
            (commits[at].short(), measured.as_ref().map_or_else(Clone::clone, CommitLoss::text));
        terminal::warn(&format!("{name} {}: {why}; {}", answer.word(), likeliest(&all)));
        tested.push((at, answer, measured));
    }
    let found = Found { arguments, all, commits, loss, limit: test.limit, tested };
    super::print_text(&if arguments.json { found.json() } else { found.text() })?;
    Ok(if found.all.is_decided() { Status::Success } else { Status::Undecided })
}

/// The answer and what it rests on.
struct Found<'f> {
    arguments: &'f BisectArguments,
    all: CommitBisection,
    commits: Vec<Commit>,
    /// That of the bad commit.
    loss: CommitLoss,
    /// Commits that lose more are bad.
    limit: f64,
    /// In their order, with what was measured or why nothing was.
    tested: Vec<(usize, CommitAnswer, Result<CommitLoss, String>)>,
}

impl Found<'_> {
    fn probability(&self) -> f64 {
        self.all.suspects().iter().map(|at| self.all.share(*at)).sum::<f64>().min(1.0)
    }

    /// With the next step.
    fn text(&self) -> String {
        let Self { arguments: BisectArguments { good, bad, .. }, all, commits, .. } = self;
        let set = all.suspects();
        let named = match set.as_slice() {
            [only] => format!("{} is the first commit", commits[*only].short()),
            _ => format!("one of {} commits is the first one", set.len()),
        };
        let mut text = format!(
            "{named} slower than {good} by more than {} (probability {}); {bad} is by {}\n\
             {} of {}\n\n",
            size(self.limit),
            percent(self.probability()),
            self.loss.text(),
            counted(all.tests(), "test"),
            counted(commits.len(), "commit")
        );
        for at in set.iter().take(LISTED) {
            let Commit { subject, .. } = &commits[*at];
            let (name, share) = (commits[*at].short(), percent(all.share(*at)));
            text += &format!("  {name}  {share:>6}  {}\n", fathom_record::escaped(subject));
        }
        if set.len() > LISTED {
            text += &format!("  and {} more\n", set.len() - LISTED);
        }
        if let Some((name, loss)) = self.earlier() {
            text += &format!(
                "\n{name} is slower, too, by {}: `fathom bisect {good} {name} …` finds that step\n",
                loss.text()
            );
        }
        text + &match set.as_slice() {
            [only] => format!("\nnext: git show {}\n", commits[*only].short()),
            _ if all.is_decided() => "\nno commit between them can be built and run\n".to_owned(),
            _ => "\nmore tests would not tell them apart: allow more runs (--runs)\n".to_owned(),
        }
    }

    /// The first commit that is slower, but not so much that it is bad: a step before.
    fn earlier(&self) -> Option<(&str, &CommitLoss)> {
        let slower = self.tested.iter().filter_map(|(at, answer, loss)| {
            let loss = loss.as_ref().ok()?;
            let is = *answer == CommitAnswer::Good && loss.interval[0] > EFFECT_MIN;
            is.then_some((*at, loss))
        });
        let (at, loss) = slower.min_by_key(|(at, _)| *at)?;
        Some((self.commits[at].short(), loss))
    }

    fn json(&self) -> String {
        let Self { arguments: BisectArguments { good, bad, .. }, all, commits, .. } = self;
        let loss = |it: &CommitLoss| json!({ "loss": it.value, "interval": it.interval });
        let commit = |at: &usize| {
            let Commit { id, subject } = &commits[*at];
            json!({ "id": id, "subject": subject, "probability": all.share(*at) })
        };
        let test = |(at, answer, measured): &(usize, CommitAnswer, Result<CommitLoss, String>)| {
            let (id, answer) = (&commits[*at].id, answer.word());
            match measured {
                Ok(it) => json!({ "id": id, "answer": answer, "measured": loss(it) }),
                Err(why) => json!({ "id": id, "answer": answer, "why": why }),
            }
        };
        let value = json!({
            "good": good,
            "bad": bad,
            "decided": all.is_decided(),
            "limit": self.limit,
            "measured": loss(&self.loss),
            "probability": self.probability(),
            "first_bad": all.suspects().iter().map(commit).collect::<Vec<_>>(),
            "tests": self.tested.iter().map(test).collect::<Vec<_>>(),
        });
        format!("{value:#}\n")
    }
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
    ) -> anyhow::Result<(CommitAnswer, Result<CommitLoss, String>)> {
        let loss = self.loss(commit, test.pairs)?;
        let answer = match &loss {
            Ok(loss) => commit_answer(loss.interval, test.limit),
            Err(_) => CommitAnswer::Untestable,
        };
        Ok((answer, loss))
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
        let bench = finish(&command, self.interrupt)?;
        if !bench.status.success() {
            let (status, words) = (exit_text(bench.status), bench.last_words());
            return Ok(Err(format!("--run: {status} ({words})")));
        }
        let document: Document =
            serde_json::from_slice(&bench.output).context("read the result")?;
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
