//! `fathom report`: runs as an HTML page.

use std::ffi::{OsStr, OsString};
use std::fs::create_dir_all;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use anyhow::Context as _;
use fathom_analysis::compare::{self as comparing, Comparison};
use fathom_analysis::fleet::judge;
use fathom_analysis::history::{self, HistorySeries};
use fathom_analysis::reference::{self as published, Beneath, CLASSIC};
use fathom_metric::{About, Entry};
use fathom_probes::REGISTRY;
use fathom_record::{Document, Params, Record, Run, RunState, escaped};
use fathom_report::page::{self, MARK, MARK_WITHIN};
use fathom_report::paper::{self, Described, PaperForm};
use fathom_report::tiles;
use fathom_store::Store;
use flate2::read::DeflateDecoder;

use super::output_file::{self, Replaceable};
use super::{compare, counted, group, reference, stored_run};
use crate::arguments::report::ReportArguments;
use crate::exit::{Status, usage_error};
use crate::terminal;

/// The page that `make web` built last, which is in the source tree: a build needs no Node. The
/// build script compresses it.
pub(super) static TEMPLATE: LazyLock<String> = LazyLock::new(|| {
    let packed: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/report.html.deflate"));
    let mut text = String::new();
    DeflateDecoder::new(packed).read_to_string(&mut text).expect("packed by the build script");
    text
});
/// More runs cannot be distinguished in one chart.
const RUNS_MAX: usize = 6;
/// Seed of the bootstrap: the default of `fathom compare`.
const SEED: u64 = 1;
const REPLACEABLE: Replaceable = Replaceable {
    is_replaceable: is_our_page,
    refusal: "file exists and is not a page of `fathom report`",
};

pub(super) fn report(arguments: &ReportArguments) -> anyhow::Result<Status> {
    if arguments.open && arguments.output == Path::new("-") {
        usage_error!("--open: names a file, and `-o -` makes none");
    }
    if arguments.open && arguments.reference.as_deref() == Some("") {
        usage_error!("--open: the list of studies is no page; name one by --reference NAME");
    }
    let status = write_report(arguments)?;
    if arguments.open {
        // A relative path could look like an option.
        let path = std::path::absolute(&arguments.output)?;
        let mut opener = Command::new("xdg-open");
        // It ends when it has handed the file to a browser, and says itself why it cannot.
        if let Err(error) = opener.arg(&path).stdin(Stdio::null()).stdout(Stdio::null()).spawn() {
            let path = path.display();
            terminal::warn(&format!("--open: xdg-open: {error}; open {path} in a browser"));
        }
    }
    Ok(status)
}

fn write_report(arguments: &ReportArguments) -> anyhow::Result<Status> {
    // `--reference` without a name.
    if arguments.reference.as_deref() == Some("") {
        return reference::list();
    }
    // Before the work, so that a refusal comes at once.
    let output = output_file::check(&arguments.output, arguments.force, &REPLACEABLE)?;
    if arguments.fleet {
        let (text, summary) = fleet(arguments)?;
        let Some(path) = output else { return super::print_text(&text) };
        output_file::write(&path, &text)?;
        return super::print_done(&written(&arguments.output, text.len(), &summary));
    }
    if arguments.paper {
        return paper(arguments, output.as_deref());
    }
    let name = arguments.reference.as_deref();
    let reference = name.map(|name| reference::find("report", name)).transpose()?;
    let names = arguments.run.iter().chain(&arguments.runs).map(String::as_str);
    let names = names.chain(arguments.runs.is_empty().then_some("latest"));
    stored_run::open_for(names, &arguments.store, |store| {
        let _ = stored_run::metrics(store);
        tiles::metrics().for_each(|metric| drop(store.history(metric)));
    })?;
    let (documents, origins) = documents(arguments)?;
    let store = stored_run::open_store(&arguments.store).ok();
    let store = store.as_deref();
    let comparison = comparison(&documents, store);
    let study = reference.as_ref().map(|reference| Beneath::from_reference(reference, &documents));
    warn_of_gaps(&documents, comparison.as_ref());
    if study.as_ref().is_some_and(|study| !study.touches(&documents)) {
        terminal::warn("the study has no figure for any metric of these runs");
    }
    let data = data(&documents, &origins, store, comparison.as_ref(), study.as_ref());
    let text = page::page(&TEMPLATE, &data);
    let Some(path) = output else { return super::print_text(&text) };
    output_file::write(&path, &text)?;
    super::print_done(&summary(&arguments.output, text.len(), &documents, origins.len()))
}

/// Writes a paper, and its figures beside it.
fn paper(arguments: &ReportArguments, output: Option<&Path>) -> anyhow::Result<Status> {
    let documents = match arguments.run.is_none() && arguments.runs.is_empty() {
        true => {
            let (latest, others) =
                stored_run::latest_and_others(true, &arguments.store, |_, _| ())?;
            // Only some of their cases are shown.
            let part = |run: Document| {
                let planned = run.records.len() as u64;
                Document { run: Run { planned, ..run.run }, ..run }
            };
            std::iter::once(latest).chain(others.into_iter().map(part)).collect()
        }
        false => documents(arguments)?.0,
    };
    warn_of_gaps(&documents, None);
    let classic = published::beside(&reference::find("report", CLASSIC)?, &documents);
    let extension = output.and_then(Path::extension).and_then(OsStr::to_str);
    if let Some(other) = extension.filter(|it| !["md", "html", "htm"].contains(it)) {
        usage_error!(
            "-o {}: a paper is a page (.html, to print as PDF) or Markdown (.md), not .{other}",
            arguments.output.display()
        );
    }
    let is_markdown = output.is_some_and(|path| path.extension() == Some(OsStr::new("md")));
    let folder = arguments.output.with_extension("").into_os_string();
    let folder = PathBuf::from([folder, "-figures".into()].into_iter().collect::<OsString>());
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let form = if is_markdown { PaperForm::Markdown { folder: name } } else { PaperForm::Html };
    let paper = paper::paper(&documents, &classic, &described, &form);
    let Some(path) = output else { return super::print_text(&paper.text) };
    if !paper.figures.is_empty() {
        let names = paper.figures.iter().map(|(name, _)| name.as_str());
        output_file::check_folder(&folder, names, arguments.force, &REPLACEABLE)?;
        create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    }
    for (figure, svg) in &paper.figures {
        output_file::write(&folder.join(figure), svg)?;
    }
    output_file::write(path, &paper.text)?;
    if is_markdown {
        remove_stale(&folder, &paper.figures)?;
    }
    super::print_done(&summary(&arguments.output, paper.text.len(), &documents, 0))
}

/// Removes the figures of an earlier paper at this place that this one does not have.
fn remove_stale(folder: &Path, figures: &[(String, String)]) -> anyhow::Result<()> {
    let is_kept =
        |path: &Path| figures.iter().any(|(name, _)| path.file_name() == Some(name.as_ref()));
    for path in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.path()) {
        let is_figure = path.extension() == Some(OsStr::new("svg")) && !path.is_symlink();
        if is_figure && !is_kept(&path) && is_our_page(&path) {
            std::fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
        }
    }
    Ok(())
}

fn described(metric: &str) -> Option<Described> {
    let entry = REGISTRY.find(metric)?;
    let &About { title, timed, not_timed, .. } = entry.about();
    let is_derived = matches!(entry, Entry::Derived(_));
    Some(Described { title, timed, not_timed, is_derived })
}

/// The page of many hosts, and what it is of.
fn fleet(arguments: &ReportArguments) -> anyhow::Result<(String, String)> {
    let runs = group::runs(&arguments.runs, &arguments.store)?;
    let name = match &arguments.runs[..] {
        [name] => name,
        _ => "",
    };
    let (data, hosts) = fleet_data(name, &runs);
    let hosts = counted(hosts, "host");
    Ok((page::page(&TEMPLATE, &data), format!("{hosts}, {}", counted(runs.len(), "run"))))
}

/// The data of the page of many hosts, and how many they are.
pub(super) fn fleet_data(name: &str, runs: &[Document]) -> (String, usize) {
    let runs: Vec<&Document> = runs.iter().collect();
    let judgement = judge(&runs.iter().copied().collect(), &group::noise_limits());
    (fathom_report::fleet::data(name, &runs, &judgement), judgement.hosts)
}

/// The data of the page of runs.
pub(super) fn data(
    documents: &[Document],
    origins: &[String],
    store: Option<&Store>,
    comparison: Option<&Comparison>,
    study: Option<&Beneath<'_>>,
) -> String {
    let histories: Vec<_> = documents.iter().map(|run| histories(run, store)).collect();
    page::data(TEMPLATE.len(), documents, origins, &histories, comparison, study)
}

/// The runs, and the origins of the last records of the first one, where those are of other runs.
fn documents(arguments: &ReportArguments) -> anyhow::Result<(Vec<Document>, Vec<String>)> {
    let runs = arguments.run.as_ref().map_or(&arguments.runs[..], std::slice::from_ref);
    if runs.len() > RUNS_MAX {
        usage_error!("{} runs named: a page holds at most {RUNS_MAX}", runs.len());
    }
    if runs.is_empty() {
        let (mut latest, others) =
            stored_run::latest_and_others(true, &arguments.store, |_, _| ())?;
        let mut origins = Vec::new();
        for mut other in others {
            let origin = fathom_report::origin(&latest, &other);
            origins.extend(other.records.iter().map(|_| origin.clone()));
            latest.records.append(&mut other.records);
        }
        return Ok((vec![latest], origins));
    }
    let mut documents: Vec<Document> = Vec::new();
    for run in runs {
        let document = stored_run::document(run, true, &arguments.store)?;
        match documents.iter().any(|other| other.run.id == document.run.id) {
            true => terminal::warn(&format!("{run}: run {} is named twice", document.run.id)),
            false => documents.push(document),
        }
    }
    Ok((documents, Vec::new()))
}

/// The comparison of two runs.
pub(super) fn comparison(documents: &[Document], store: Option<&Store>) -> Option<Comparison> {
    let [a, b] = documents else { return None };
    let noise = compare::noise(std::slice::from_ref(a), b, store);
    Some(comparing::compare(a, b, &noise, SEED))
}

/// The history of each tile up to this run, on its host; a missing store has none.
fn histories(document: &Document, store: Option<&Store>) -> Vec<Option<HistorySeries>> {
    let of = |record: &Record| {
        let (mut runs, _) = store?.history(record.metric.as_str()).ok()?;
        match runs.iter().position(|run| run.run.id == document.run.id) {
            Some(at) => runs.truncate(at + 1),
            // Of another run, or of a file.
            None => runs.retain(|run| run.run.started <= document.run.started),
        }
        let selects = |params: &Params| *params == record.params;
        let metric = record.metric.as_str();
        let history = history::history(metric, document.host.identity(), &runs, &selects);
        history.series.into_iter().next()
    };
    tiles::records(document).into_iter().map(of).collect()
}

fn warn_of_gaps(documents: &[Document], comparison: Option<&Comparison>) {
    for document in documents {
        let id = &document.run.id;
        match document.run.state {
            RunState::Complete => {}
            RunState::Interrupted => terminal::warn(&format!(
                "run {id} was interrupted: the page shows what it finished"
            )),
            RunState::Running | RunState::Unknown => terminal::warn(&format!(
                "run {id} is still running or was killed: the page shows what it finished"
            )),
        }
        if !document.records.iter().any(|record| record.verdict.shows_number()) {
            terminal::warn(&format!("run {id} has no valid number"));
        }
    }
    if comparison.is_some_and(|it| it.rows.is_empty() && it.not_comparable.is_empty()) {
        terminal::warn("the two runs have no common metric: nothing to compare");
    }
}

/// Whether a file is a page that this command wrote.
fn is_our_page(path: &Path) -> bool {
    let mut start = Vec::new();
    let limit = u64::try_from(MARK_WITHIN).unwrap_or(u64::MAX);
    let read = std::fs::File::open(path).map(|file| file.take(limit).read_to_end(&mut start));
    let start = String::from_utf8_lossy(&start);
    read.is_ok() && (start.contains(MARK) || paper::MARKS.iter().any(|mark| start.contains(mark)))
}

fn summary(path: &Path, bytes: usize, documents: &[Document], of_others: usize) -> String {
    let run = |document: &Document| {
        let mut cases = counted(document.records.len(), "case");
        if of_others > 0 {
            cases += &format!(", {of_others} of them from other runs");
        }
        format!("run {} of {} ({cases})", document.run.name(), document.host.shown_name())
    };
    let runs: Vec<String> = documents.iter().map(run).collect();
    written(path, bytes, &runs.join(", "))
}

fn written(path: &Path, bytes: usize, what: &str) -> String {
    let size = super::scratch_folder::size(bytes as u64);
    let is_page = path.extension() != Some(OsStr::new("md"));
    let open = if is_page { " Open it in a browser." } else { "" };
    format!("Wrote {} ({size}): {what}.{open}\n", escaped(&path.display().to_string()))
}
