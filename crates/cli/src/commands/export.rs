//! `fathom export`: stored runs for other programs.

use std::fs::File;
use std::io::{self, BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail, ensure};
use fathom_analysis::typical;
use fathom_record::diagnosis::DIAGNOSIS_SCHEMA_VERSION;
use fathom_record::{Activity, Better, Diagnosis, Document, system_cause};
use fathom_report::export::{self as format, Additions, SampleTable};

use super::limits::CommandLimits;
use super::output_file::{self, Replaceable};
use super::stored_run;
use crate::arguments::{BetterName, ExportArguments, FormatName};
use crate::exit::{Status, UsageError, usage_error};
use crate::remedy::with_remedy;
use crate::terminal;

const MARGIN: f64 = 0.05;

/// An export has no mark by which it is recognised: no file is replaced without `--force`.
pub(super) const REPLACEABLE: Replaceable =
    Replaceable { is_replaceable: |_| false, refusal: "file exists" };

/// The file of `-o` that a measuring command writes its document to, besides what it prints.
pub(super) fn document_file(path: Option<&Path>, force: bool) -> anyhow::Result<Option<PathBuf>> {
    if path == Some(Path::new("-")) {
        usage_error!("--output -: `--json` prints the run to standard output");
    }
    let check = |path| output_file::check(path, force, &REPLACEABLE);
    let file = path.map(check).transpose()?.flatten();
    file.as_deref().map_or(Ok(()), output_file::check_place)?;
    Ok(file)
}

pub(super) fn export(arguments: &ExportArguments) -> anyhow::Result<Status> {
    use FormatName::{Csv, GithubAction, Json, Jsonl, Limits, Openmetrics, Typical};
    if let Some(to) = &arguments.to {
        return super::store::copy(&arguments.store, to);
    }
    let format = arguments.format;
    if arguments.samples && !matches!(format, Json | Jsonl | Csv) {
        usage_error!("--samples: only JSON and CSV have raw samples (--format csv)");
    }
    for (option, is_given, of, name) in [
        ("--headline", arguments.headline, Openmetrics, "openmetrics"),
        ("--limits", arguments.limits.is_some(), Openmetrics, "openmetrics"),
        ("--doctor", arguments.doctor.is_some(), Openmetrics, "openmetrics"),
        ("--margin", arguments.margin.is_some(), Limits, "limits"),
        ("--type", arguments.machine_type.is_some(), Typical, "typical"),
        ("--better", arguments.better.is_some(), GithubAction, "github-action"),
    ] {
        if is_given && format != of {
            usage_error!("{option}: only for --format {name}");
        }
    }
    // Before the work, so that a refusal comes at once.
    let output = arguments.output.as_deref().unwrap_or(Path::new("-"));
    let output = output_file::check(output, arguments.force, &REPLACEABLE)?;
    if arguments.samples {
        return samples(arguments, output.as_deref());
    }
    let documents = documents(arguments)?;
    let text = match arguments.format {
        FormatName::Json => documents.iter().map(fathom_report::document_json).collect(),
        FormatName::Markdown => fathom_report::markdown::documents(&documents),
        FormatName::Jsonl => format::jsonl(&documents),
        FormatName::Limits => format::limits(one(&documents)?, arguments.margin.unwrap_or(MARGIN))
            .ok_or_else(|| anyhow!("the run has no valid number with an interval"))?,
        FormatName::Typical => machine(one(&documents)?, arguments.machine_type.as_deref())?,
        FormatName::Csv => format::csv(&documents),
        FormatName::Openmetrics => openmetrics(&documents, arguments)?,
        FormatName::Go => format::go(&documents),
        FormatName::GithubAction => {
            github_action(one(&documents)?, arguments.better.unwrap_or(BetterName::Lower))
        }
    };
    match output {
        Some(path) => output_file::write(&path, &text).map(|()| Status::Success),
        None => super::print_text(&text),
    }
}

/// Runs with their raw samples: one in memory at a time, and of its text a part.
fn samples(arguments: &ExportArguments, output: Option<&Path>) -> anyhow::Result<Status> {
    if let Some(path) = output {
        return output_file::write_by(path, |file| write_samples(arguments, file))
            .map(|()| Status::Success);
    }
    if terminal::was_closed() {
        bail!("write to standard output: it is closed");
    }
    match write_samples(arguments, io::stdout()) {
        Ok(()) => Ok(Status::Success),
        Err(error) => match error.downcast::<io::Error>() {
            Ok(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Status::OutputClosed),
            Ok(error) => bail!("write to standard output: {}", terminal::output_cause(error)),
            Err(other) => Err(other),
        },
    }
}

fn write_samples(arguments: &ExportArguments, output: impl Write) -> anyhow::Result<()> {
    let is_line = match arguments.format {
        FormatName::Csv => return write_table(arguments, output),
        format => format == FormatName::Jsonl,
    };
    let mut output = BufWriter::new(output);
    each_run(arguments, &mut |run| Ok(format::write_json(&run, is_line, &mut output)?))?;
    Ok(output.flush()?)
}

fn write_table(arguments: &ExportArguments, output: impl Write) -> anyhow::Result<()> {
    let mut table = SampleTable::csv(output)?;
    let mut rows = 0;
    each_run(arguments, &mut |document| {
        rows += table.add(&document)?;
        Ok(())
    })?;
    ensure!(rows > 0, "no raw samples: they were pruned, or the run was stored without them");
    Ok(table.finish()?)
}

/// With what else is asked for: answers to limits, and the doctor's findings.
fn openmetrics(documents: &[Document], arguments: &ExportArguments) -> anyhow::Result<String> {
    let limits = arguments.limits.as_deref().map(CommandLimits::read).transpose()?;
    let judge = limits.map(|limits| move |document: &Document| limits.judgement(document));
    let diagnosis = arguments.doctor.as_deref().map(diagnosis).transpose()?;
    let is_of = |it: &Diagnosis| {
        documents.iter().any(|document| document.host.identity() == it.host.identity())
    };
    if let Some(other) = diagnosis.as_ref().filter(|it| !is_of(it)) {
        bail!("--doctor: examined {}, of which no run is exported", other.host.shown_name());
    }
    let additions = Additions {
        only_headlines: arguments.headline,
        diagnosis: diagnosis.as_ref(),
        judge: judge.as_ref().map(|judge| judge as _),
    };
    Ok(format::openmetrics(documents, additions))
}

/// The largest document of the doctor.
const DIAGNOSIS_BYTES_MAX: u64 = 4 << 20;

/// A document of `fathom doctor --json`.
fn diagnosis(path: &Path) -> anyhow::Result<Diagnosis> {
    let name = path.display();
    let failed = |error: io::Error| {
        anyhow!(
            "open {name}: {}; `fathom doctor -o FILE` writes it",
            system_cause(&error, Activity::Read)
        )
    };
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(DIAGNOSIS_BYTES_MAX).read_to_string(&mut text))
        .map_err(failed)?;
    let diagnosis: Diagnosis = serde_json::from_str(&text)
        .map_err(|error| anyhow!("{name} is not a document of `fathom doctor -o FILE`: {error}"))?;
    let schema = diagnosis.schema;
    ensure!(
        schema == DIAGNOSIS_SCHEMA_VERSION,
        "{name} has schema {schema}, this program reads {DIAGNOSIS_SCHEMA_VERSION}; examine again"
    );
    Ok(diagnosis)
}

fn one(documents: &[Document]) -> Result<&Document, UsageError> {
    match documents {
        [one] => Ok(one),
        more => Err(UsageError(format!("export: this format is of one run, {} named", more.len()))),
    }
}

/// Says how many numbers are of the other direction.
fn github_action(document: &Document, better: BetterName) -> String {
    let (better, others) = match better {
        BetterName::Lower => (Better::Lower, "--better higher has rates"),
        BetterName::Higher => (Better::Higher, "--better lower has times and sizes"),
    };
    let (text, left) = format::github_action(document, better);
    if left > 0 {
        let left = super::counted(left, "number");
        terminal::warn(&format!("left out {left} of another direction; {others}"));
    }
    text
}

/// The row of a run for the collection of typical machines.
fn machine(document: &Document, name: Option<&str>) -> anyhow::Result<String> {
    let name = name.or(document.host.machine_type.as_deref());
    let is_word = |text: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        !text.is_empty() && text.chars().all(is_part)
    };
    let parts = name.and_then(|name| name.split_once('/'));
    let Some((provider, type_name)) = parts.filter(|(a, b)| is_word(a) && is_word(b)) else {
        usage_error!(
            "--format typical: needs the machine type, --type PROVIDER/TYPE, such as \
             aws/m9g.large; own/NAME for a machine that is not rented"
        );
    };
    let machine = typical::row(document, provider, type_name).map_err(|error| anyhow!(error))?;
    Ok(typical::collection(&[machine]))
}

fn documents(arguments: &ExportArguments) -> anyhow::Result<Vec<Document>> {
    let samples = arguments.samples;
    if arguments.format == FormatName::Openmetrics && arguments.runs.is_empty() && !arguments.all {
        let (latest, others) = stored_run::latest_and_others(samples, &arguments.store, |_, _| ())?;
        return Ok(std::iter::once(latest).chain(others).collect());
    }
    let mut documents = Vec::new();
    each_run(arguments, &mut |document| {
        documents.push(document);
        Ok(())
    })?;
    Ok(documents)
}

/// The runs that are named, one in memory at a time.
fn each_run(
    arguments: &ExportArguments,
    each: &mut dyn FnMut(Document) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let samples = arguments.samples;
    if !arguments.all {
        let is_of_all = matches!(arguments.format, FormatName::Limits | FormatName::Typical);
        let latest = match is_of_all && arguments.runs.is_empty() {
            true => stored_run::latest_battery(&arguments.store)?,
            false => "latest",
        };
        let latest = [latest.to_owned()];
        let runs = if arguments.runs.is_empty() { &latest[..] } else { &arguments.runs };
        return runs
            .iter()
            .try_for_each(|run| stored_run::each_of_group(run, samples, &arguments.store, each));
    }
    let store = stored_run::open_store(&arguments.store)?;
    // The oldest first, so that an import stores them in this order.
    for run in store.runs()?.iter().rev() {
        match store.document(&run.id, samples) {
            Ok(mut document) => {
                typical::fill(&mut document);
                each(document)?;
            }
            // A damaged run does not prevent the export of the others.
            Err(error) => terminal::warn(&format!("skipped: {}", with_remedy(&error))),
        }
    }
    Ok(())
}
