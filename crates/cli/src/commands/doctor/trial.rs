//! `fathom doctor --try`: which remedies pay here.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use fathom_engine::{beginnings, matches, nearest_of};
use fathom_measure::host;
use fathom_probes::REGISTRY;
use fathom_record::quantity::counted;
use fathom_record::trial::TRIAL_METRIC;
use fathom_record::{Diagnosis, Severity, is_own};
use fathom_report::TriedRemedies;
use fathom_store::{CaseSearch, Store};
use fathom_trial::{
    ALL, Recovery, TrialFactor, TrialMachine, TrialRequest, TrialSubject, knob, state_folder,
};

use super::examine;
use crate::arguments::by_hand::{OutputArguments, ProcedureArguments};
use crate::arguments::{DoctorArguments, MemberOptions};
use crate::commands::{by_hand, check_cases_exist, print_text, selector, stored_run};
use crate::exit::{Status, UsageError, usage_error};
use crate::remedy::{did_you_mean, is_program};
use crate::terminal;

/// Seconds, without `--time`.
const TIME_S: f64 = 300.0;
const LIST: &str = "`fathom doctor --list` lists them";
const NO_FOLDER: &str = "--try: no folder for its journal; set HOME";

fn state() -> Option<PathBuf> {
    let own = || Some(Store::default_path().ok()?.parent()?.to_owned());
    state_folder(own())
}

/// Restores what a killed `--try` left changed, and says so; by `--undo` also that nothing was.
pub(super) fn recover(arguments: &DoctorArguments) -> anyhow::Result<Status> {
    let is_asked = arguments.undo;
    let Some(state) = state() else { return Ok(Status::Success) };
    let text = match fathom_trial::recover(&TrialMachine::here(), &state) {
        Recovery::Nothing if is_asked => "nothing to restore".to_owned(),
        Recovery::Busy(pid) if is_asked || arguments.tried.is_some() => bail!(
            "another `fathom doctor --try` (pid {pid}) runs, and restores the settings at its end: \
             wait for that"
        ),
        Recovery::Busy(pid) => format!(
            "`fathom doctor --try` (pid {pid}) tries settings now: a finding may be a value that \
             it tries"
        ),
        Recovery::Nothing => return Ok(Status::Success),
        Recovery::Restored(count) => {
            let settings = counted(count, "setting");
            format!("restored {settings} that a killed `fathom doctor --try` left changed")
        }
        Recovery::Failed(why) if is_asked => bail!("{why}"),
        Recovery::Failed(why) => why,
    };
    if is_asked {
        return print_text(&format!("{text}\n"));
    }
    terminal::warn(&text);
    Ok(Status::Success)
}

/// That each name is one of the list, before anything is done.
pub(super) fn check_names(names: &[String]) -> Result<(), UsageError> {
    if let Some(name) = names.iter().find(|name| !is_known(name)) {
        let near = nearest_of(name, knob::names());
        usage_error!("--try {name}: no such setting; {}", did_you_mean(&near, LIST));
    }
    Ok(())
}

pub(super) fn try_remedies(
    arguments: &DoctorArguments,
    names: &[String],
) -> anyhow::Result<Status> {
    let subject = subject(&arguments.subject)?;
    let is_offer = names.is_empty();
    let names = match (is_offer, &subject) {
        (true, Some(_)) => vec![ALL.to_owned()],
        (true, None) => remedies(&examine(arguments))?,
        (false, _) => names.to_vec(),
    };
    let request = TrialRequest {
        names,
        is_offer,
        subject,
        time_s: arguments.time.map_or(TIME_S, |time| time.as_secs_f64()),
        seed: arguments.seed,
        machine: TrialMachine::here(),
        state: state().context(NO_FOLDER)?,
    };
    by_hand::by_hand(&ProcedureArguments {
        path: "doctor",
        procedure: Box::new(request),
        label: None,
        jsonl: false,
        output: OutputArguments {
            brief: false,
            json: arguments.json,
            samples: false,
            store: arguments.store.clone(),
        },
        file: arguments.output.clone(),
        force: arguments.force,
        member: MemberOptions::default(),
    })
}

fn is_known(name: &str) -> bool {
    let name = name.split('=').next().unwrap_or(name);
    name == ALL || knob::find(name).is_some()
}

/// Each setting and what would be tried, or why it is not.
pub(super) fn list() -> String {
    let machine = TrialMachine::here();
    let line = |knob: &'static knob::Knob| {
        let change = match TrialFactor::new(&machine, knob, None) {
            Ok(factor) => factor.change(),
            Err(why) => why.to_string().replacen(&format!("{}: ", knob.name), "", 1),
        };
        format!("{:<16}{change}\n", knob.name)
    };
    knob::KNOBS.iter().map(line).collect()
}

/// The names of the remedies for the findings that can be tried.
fn remedies(diagnosis: &Diagnosis) -> anyhow::Result<Vec<String>> {
    let names: Vec<String> = tryable(diagnosis).map(|(_, name)| name.to_owned()).collect();
    if names.is_empty() {
        bail!(
            "no finding has a remedy that can be tried; `fathom doctor --try all` tries what this \
             machine has; {LIST}"
        );
    }
    Ok(names)
}

/// Rules and names of remedies.
fn tryable(diagnosis: &Diagnosis) -> impl Iterator<Item = (&str, &'static str)> {
    let machine = TrialMachine::here();
    diagnosis.findings.iter().filter_map(move |finding| {
        let knob = knob::for_rule(&finding.id).filter(|_| finding.severity > Severity::Good)?;
        finding.remedy.as_ref()?;
        let is_shown = knob.shown_by != knob::ShownBy::Named;
        let is_here = is_shown && TrialFactor::new(&machine, knob, None).is_ok();
        is_here.then_some((finding.id.as_str(), knob.name))
    })
}

/// The URL of a server, metrics, or a command.
fn subject(words: &[String]) -> Result<Option<TrialSubject>, UsageError> {
    let is_metric = |word: &String| {
        let name = word.split('{').next().unwrap_or(word);
        let of_registry = || REGISTRY.entries().iter().any(|it| matches(it.about().id, name));
        !is_own(name) && of_registry()
    };
    Ok(match words {
        [] => None,
        [url] if url.starts_with("http://") || url.starts_with("https://") => {
            Some(TrialSubject::Load(url.clone()))
        }
        metrics if metrics.iter().all(is_metric) => {
            for metric in metrics {
                check_cases_exist(&selector(metric)?)?;
            }
            Some(TrialSubject::Metrics(metrics.to_vec()))
        }
        words => {
            check_spelling(words.iter().filter(|word| !is_metric(word)))?;
            let [line] = words else {
                usage_error!(
                    "--for {}: a command with its arguments is one word, in quotes; only metrics \
                     may be several",
                    words[0]
                )
            };
            Some(TrialSubject::Command(line.clone()))
        }
    })
}

/// That none of the words is a misspelt metric.
fn check_spelling<'w>(words: impl Iterator<Item = &'w String>) -> Result<(), UsageError> {
    for word in words {
        let name = word.split('{').next().unwrap_or(word);
        let mut ids: Vec<&str> =
            REGISTRY.entries().iter().flat_map(|it| beginnings(it.about().id)).collect();
        ids.sort_unstable();
        ids.dedup();
        let near = nearest_of(name, ids);
        let is_dotted = name.contains('.') && !name.contains(['/', ' ']);
        if is_dotted && !near.is_empty() && !is_program(name) {
            let text = did_you_mean(&near, "`fathom list` lists them all");
            usage_error!("--for {word}: no metric or program; {text}");
        }
    }
    Ok(())
}

/// What is known of remedies of these findings. Without a store that can be read: nothing.
pub(super) fn tried(arguments: &DoctorArguments, diagnosis: &Diagnosis) -> TriedRemedies {
    let rules = tryable(diagnosis).map(|(rule, _)| rule.to_owned()).collect();
    let runs = || {
        let store = stored_run::open_store(&arguments.store).ok()?;
        let host = host::read();
        let search = CaseSearch { like: Some(&host), ..CaseSearch::on_host(host.identity()) };
        let cases = store.newest_cases([TRIAL_METRIC], search.whole()).ok()?;
        let (mut runs, _) = store.records_of(&cases).ok().filter(|_| !cases.is_empty())?;
        runs.reverse();
        Some(runs)
    };
    TriedRemedies { rules, runs: runs().unwrap_or_default() }
}
