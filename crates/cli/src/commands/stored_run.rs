//! The store and the runs in it, as command lines name them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::rc::Rc;
use std::sync::Once;

use anyhow::{Context, anyhow, bail};
use fathom_analysis::typical;
use fathom_engine::nearest_of;
use fathom_measure::host::{self, HostReader};
use fathom_probes::REGISTRY;
use fathom_record::host::{NAME_VARIABLE, name_with_id};
use fathom_record::{
    Activity, Document, Host, IMPORT, OWN_GROUPS, Outline, Params, Record, system_cause,
};
use fathom_store::{CaseSearch, HostName, Place, Store, StoreError, StoredCase, VERSION};

use super::{counted, documents, spool};
use crate::arguments::StoreArguments;
use crate::remedy::with_remedy;
use crate::terminal;

/// The named store, or the one in the user's data folder.
pub(super) fn place(arguments: &StoreArguments) -> Result<Place, StoreError> {
    static SAID: Once = Once::new();
    let place = named_store(arguments)
        .map_or_else(|| Store::default_path().map(Place::File), |text| Place::parse(&text))?;
    if let (Some(_), Place::Database(address)) = (&arguments.store, &place)
        && address.has_password()
    {
        let text = "--store has a password, which every user of this machine can read in `ps`; \
                    put the address into FATHOM_STORE, or the password into ~/.pgpass";
        SAID.call_once(|| terminal::warn(text));
    }
    Ok(place)
}

/// As [`place`]. Refuses a store that would be migrated, if that is not allowed: a database is
/// asked for its version.
pub(super) fn store_place(arguments: &StoreArguments) -> Result<Place, StoreError> {
    let place = place(arguments)?;
    if arguments.no_migrate {
        Store::refuse_older(&place)?;
    }
    Ok(place)
}

/// The store of `--store` or FATHOM_STORE.
pub(super) fn named_store(arguments: &StoreArguments) -> Option<OsString> {
    let by_environment = std::env::var_os("FATHOM_STORE").filter(|store| !store.is_empty());
    arguments.store.clone().map(OsString::from).or(by_environment)
}

thread_local! {
    /// The database of [`open_for`]: a command opens it once.
    static OPEN: RefCell<Option<(Place, Rc<Store>)>> = const { RefCell::new(None) };
}

/// Opens the store, which must exist.
pub(super) fn open_store(arguments: &StoreArguments) -> anyhow::Result<Rc<Store>> {
    open_with(arguments, |_| ())
}

/// Opens the store for a command that shows runs of these names, and does this reading. A database
/// is asked for all that in one round trip, and stays open for the command.
pub(super) fn open_for<'n>(
    names: impl IntoIterator<Item = &'n str>,
    arguments: &StoreArguments,
    also: impl FnOnce(&Store),
) -> anyhow::Result<()> {
    let names: Vec<&str> = names.into_iter().filter(|name| !is_path(name)).collect();
    if names.is_empty() {
        return Ok(());
    }
    if let place @ Place::Database(_) = place(arguments)? {
        let this = host::read();
        let store = open_with(arguments, |store| {
            store.read_names(names.iter().copied(), this.identity());
            also(store);
        })?;
        OPEN.set(Some((place, store)));
    }
    Ok(())
}

fn open_with(arguments: &StoreArguments, work: impl FnOnce(&Store)) -> anyhow::Result<Rc<Store>> {
    let place = store_place(arguments)?;
    let is_open = |(of, _): &&(Place, Rc<Store>)| *of == place;
    if let Some(open) = OPEN.with_borrow(|it| it.as_ref().filter(is_open).map(|it| it.1.clone())) {
        return Ok(open);
    }
    spool::send_earlier(&place)?;
    let former = HostReader::live().former_id();
    let store = announced(Store::open_foreseeing(&place, |store| {
        let _ = former.as_ref().map(|former| store.name_of(former));
        work(store);
    })?);
    if let Some(former) = former
        && !arguments.no_migrate
        && store.name_of(&former)?.is_some()
        && let Ok(mut writer) = Store::open(&place)
    {
        // A store that cannot be written keeps the id of an earlier version.
        let _ = writer.map_host(&former, &host::read());
    }
    Ok(Rc::new(store))
}

/// The store, whose migration is announced.
pub(super) fn announced(store: Store) -> Store {
    if let Some(copy) = store.copy() {
        let copy = copy.display();
        terminal::warn(&format!("migrated the store to version {VERSION}; {copy} is a copy of it"));
    }
    store
}

/// The identity of this host, if it has results in the store, else of that of the last run with
/// results, which is said once.
pub(super) fn default_host(store: &Store) -> Result<String, StoreError> {
    static SAID: Once = Once::new();
    let this = host::read();
    let Some((found, name)) = store.host_or_last(this.identity())? else {
        return Ok(this.identity().to_owned());
    };
    if found != this.identity() {
        let other = name_with_id(&name, Some(&found).filter(|id| **id != name).map(String::as_str));
        let text = format!("the store has no results of this host; shown is {other}");
        SAID.call_once(|| terminal::warn(&text));
    }
    Ok(found)
}

/// The warning that the last run in the store with this host's id is of another host name.
pub(super) fn clone_warning(store: &Store, host: &Host) -> Result<Option<String>, StoreError> {
    let Some(id) = host.id.as_deref() else { return Ok(None) };
    let (name, other) = (&host.name, store.name_of(id)?);
    Ok(other.filter(|other| other != name).map(|other| {
        format!(
            "{name} has the machine-id and hardware of {other} in the store: histories take both \
             for one host. If it was not renamed but cloned, name it by --host-name or \
             {NAME_VARIABLE}"
        )
    }))
}

/// The identities and names of the hosts of these runs.
pub(super) fn hosts_of(runs: &[Outline]) -> BTreeMap<String, String> {
    let hosts = runs.iter().map(|run| &run.host);
    hosts.map(|host| (host.identity().to_owned(), host.name.clone())).collect()
}

/// Whether a metric, or all of a group, were measured by another program.
pub(super) fn is_import(name: &str) -> bool {
    name.split('.').next() == Some(IMPORT)
}

/// A run of the store by its id or label; `latest` is of the default host.
pub(super) fn find(store: &Store, name: &str) -> Result<String, StoreError> {
    if !name.starts_with("latest") {
        return store.resolve(name);
    }
    // What others measured may be of any host.
    let is_import = name.split(['~', ':']).nth(1) == Some(IMPORT);
    let host = if is_import { None } else { Some(default_host(store)?) };
    let found = store.find(name, host.as_deref())?;
    if let Some(kind) = &found.instead {
        let wanted = if name.contains(':') { "complete one" } else { "complete `fathom run`" };
        let text =
            format!("{name} is {} ({kind}): the store has no {wanted} of this host", found.id);
        terminal::warn(&text);
    }
    let newer: usize = found.passed_over.values().sum();
    if newer > 0 {
        let reasons = found.passed_over.iter().map(|(why, count)| format!("{count} {why}"));
        let reasons: Vec<String> = reasons.collect();
        let runs = counted(newer, "newer run");
        terminal::warn(&format!(
            "{name} is {}; passed over {runs}: {}",
            found.id,
            reasons.join(", ")
        ));
    }
    Ok(found.id)
}

/// A run of the store (by id, label, or the name of its host) or a JSON document, by [`is_path`].
pub(super) fn document(
    name: &str,
    samples: bool,
    arguments: &StoreArguments,
) -> anyhow::Result<Document> {
    if is_path(name) {
        return document_in_file(Path::new(name));
    }
    let store = open_store(arguments)?;
    let id = match find(&store, name) {
        Ok(id) => id,
        Err(error) => newest_of_host(&store, name)?.ok_or_else(|| unknown(name, error))?,
    };
    of_store(&store, &id, samples)
}

/// The runs of a group: all runs of the store with this label, the newest first, or all in a file
/// of runs; else the one run that [`document`] finds.
pub(super) fn documents_of_group(
    name: &str,
    samples: bool,
    arguments: &StoreArguments,
) -> anyhow::Result<Vec<Document>> {
    let mut documents = Vec::new();
    each_of_group(name, samples, arguments, &mut |document| {
        documents.push(document);
        Ok(())
    })?;
    Ok(documents)
}

/// The same, one in memory at a time.
pub(super) fn each_of_group(
    name: &str,
    samples: bool,
    arguments: &StoreArguments,
    each: &mut dyn FnMut(Document) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if is_path(name) {
        return each_in_file(Path::new(name), samples, each);
    }
    match labelled(name, arguments) {
        Ok((store, ids)) if !ids.is_empty() => {
            ids.iter().try_for_each(|id| each(of_store(&store, id, samples)?))
        }
        // What looks for one run says what is wrong.
        _ => each(document(name, samples, arguments)?),
    }
}

/// Has the runs of these names at hand.
pub(super) fn foresee_documents(
    names: &[String],
    arguments: &StoreArguments,
) -> anyhow::Result<()> {
    let names = || names.iter().filter(|name| !is_path(name));
    if names().next().is_none() || place(arguments)?.file().is_some() {
        return Ok(());
    }
    let store = open_store(arguments)?;
    // What is wrong with a name is said by who reads it.
    let found = names().filter_map(|name| match name.starts_with("latest") {
        true => store.find(name, Some(&default_host(&store).ok()?)).map(|it| it.id).ok(),
        false => store.resolve(name).ok(),
    });
    let found: Vec<String> = found.collect();
    Ok(store.foresee(|store| found.iter().for_each(|id| store.read_document(id)))?)
}

/// Whether a name is of several runs. A pipe, which can be read once, is taken for one.
pub(super) fn is_group(name: &str, arguments: &StoreArguments) -> bool {
    let path = Path::new(name);
    match is_path(name) {
        true => path.is_file() && documents_in_file(path, false).is_ok_and(|all| all.len() > 1),
        false => labelled(name, arguments).is_ok_and(|(_, ids)| ids.len() > 1),
    }
}

/// The runs with this label.
fn labelled(name: &str, arguments: &StoreArguments) -> anyhow::Result<(Rc<Store>, Vec<String>)> {
    let store = open_store(arguments)?;
    let ids = store.labelled(name)?;
    Ok((store, ids))
}

/// Whether a name is that of a file: it ends with `.json`, has a slash, or is an existing file, but
/// `latest` is always a run.
fn is_path(name: &str) -> bool {
    let is_file = !name.starts_with("latest") && Path::new(name).is_file();
    name.ends_with(".json") || name.contains('/') || is_file
}

/// A run of the store, with the typical ranges of its host.
pub(super) fn of_store(store: &Store, id: &str, samples: bool) -> anyhow::Result<Document> {
    let mut document = store.document(id, samples).with_context(|| format!("read run {id}"))?;
    typical::fill(&mut document);
    Ok(document)
}

/// The name of the last complete `fathom run` of all metrics, or else of the latest run.
pub(super) fn latest_battery(arguments: &StoreArguments) -> anyhow::Result<&'static str> {
    let store = open_store(arguments)?;
    let found = store.find(BATTERY, Some(&default_host(&store)?));
    let is_complete = found.is_ok_and(|found| found.instead.is_none());
    Ok(if is_complete { BATTERY } else { "latest" })
}

pub(super) const BATTERY: &str = "latest:battery";

/// The latest battery, and the cases that it does not have: the newest numbers from other runs of
/// the same host, kernel and CPUs, the newest run first. Commands by hand differ in their subject,
/// so the last run of each gives all its cases or none. What the caller reads `also` is foreseen.
pub(super) fn latest_and_others(
    samples: bool,
    arguments: &StoreArguments,
    also: impl FnOnce(&Store, &Document),
) -> anyhow::Result<(Document, Vec<Document>)> {
    let latest = document(latest_battery(arguments)?, samples, arguments)?;
    if latest.run.procedure.is_some() {
        return Ok((latest, Vec::new()));
    }
    let store = open_store(arguments)?;
    store.foresee(|store| {
        let _ = newest_cases(store, &latest.host);
        also(store, &latest);
    })?;
    let others = others(&store, &latest, |_, _| true)?;
    Ok((latest, others))
}

/// The selected numbers that a run does not have: of each case the newest on its host, kernel and
/// hardware. A command by hand is about another subject each time: its last run only.
pub(super) fn others(
    store: &Store,
    latest: &Document,
    is_selected: impl Fn(&str, &Params) -> bool,
) -> anyhow::Result<Vec<Document>> {
    let host = &latest.host;
    let mut cases = newest_cases(store, host)?;
    let last_of: BTreeMap<Option<String>, String> =
        cases.iter().map(|case| (case.procedure.clone(), case.run.clone())).collect();
    let has = |case: &StoredCase| {
        let same = |it: &Record| it.metric.as_str() == case.metric && it.params == case.params;
        latest.records.iter().any(same)
    };
    cases.retain(|case| {
        let is_last = case.procedure.is_none() || last_of[&case.procedure] == case.run;
        is_last && is_selected(&case.metric, &case.params) && !has(case)
    });
    let (mut others, damaged) = match cases.is_empty() {
        true => Default::default(),
        false => store.records_of(&cases)?,
    };
    damaged.iter().for_each(|error| terminal::warn(&format!("skipped: {}", with_remedy(error))));
    others.reverse();
    others.retain(|other| other.host.cgroup.has_limits_of(&host.cgroup));
    others.iter_mut().for_each(typical::fill);
    Ok(others)
}

/// The newest number of each case on a host, its kernel and its hardware.
fn newest_cases(store: &Store, host: &Host) -> Result<Vec<StoredCase>, StoreError> {
    let search =
        CaseSearch { like: Some(host), numbers: true, ..CaseSearch::on_host(host.identity()) };
    store.newest_cases(metrics(store)?.iter().map(String::as_str), search)
}

/// The metrics of the registry, then those outside it that have results.
pub(super) fn metrics(store: &Store) -> Result<Vec<String>, StoreError> {
    let registered = REGISTRY.entries().iter().map(|entry| entry.about().id.to_owned());
    let mut ids: Vec<String> = registered.collect();
    for group in OWN_GROUPS {
        ids.extend(store.metrics_of(group)?);
    }
    Ok(ids)
}

/// A shorter prefix of a host id could be a word.
pub(super) const ID_DIGITS_MIN: usize = 4;

/// The identities of the hosts with this name or id prefix, with a name of each.
pub(super) fn hosts_named(hosts: &[HostName], word: &str) -> BTreeMap<String, String> {
    let has_id = |host: &HostName| {
        let id = host.id.as_deref();
        word.len() >= ID_DIGITS_MIN && id.is_some_and(|id| id.starts_with(word))
    };
    let matching = hosts.iter().filter(|host| host.name == word || has_id(host));
    matching.map(|host| (host.identity().to_owned(), host.name.clone())).collect()
}

/// The error for a name that is neither an id or label, nor a host, nor a file.
fn unknown(name: &str, error: StoreError) -> anyhow::Error {
    match error {
        StoreError::BadName { .. } | StoreError::TooShort { .. } | StoreError::NoSuchRun { .. }
            if !name.starts_with("latest") =>
        {
            let metrics = REGISTRY.entries().iter().map(|entry| entry.about().id).collect();
            // A misspelt metric is taken for a run.
            let nearest = nearest_of(name, metrics);
            let metric = match nearest.is_empty() || !name.contains('.') {
                true => String::new(),
                false => format!("; the metric {nearest}?"),
            };
            anyhow!(
                "{name}: no stored run with this id or label, no stored run of a host with this \
                 name, and no such file; `fathom show --runs` lists the runs{metric}"
            )
        }
        error => error.into(),
    }
}

/// The newest run with a result of the host with this name or id.
fn newest_of_host(store: &Store, word: &str) -> anyhow::Result<Option<String>> {
    let hosts = hosts_named(&store.host_names()?, word);
    if hosts.len() > 1 {
        let ids: Vec<String> =
            hosts.iter().map(|(id, name)| name_with_id(name, Some(id))).collect();
        bail!("{word}: several hosts have this name: {}; name an id", ids.join(", "));
    }
    let Some(host) = hosts.keys().next() else { return Ok(None) };
    Ok(store.find("latest", Some(host)).ok().map(|found| found.id))
}

fn document_in_file(path: &Path) -> anyhow::Result<Document> {
    let mut documents = documents_in_file(path, true)?;
    match documents.len() {
        1 => Ok(documents.swap_remove(0)),
        more => {
            bail!("{} has {more} runs; `fathom import` stores them one by one", path.display())
        }
    }
}

fn documents_in_file(path: &Path, samples: bool) -> anyhow::Result<Vec<Document>> {
    let mut documents = Vec::new();
    each_in_file(path, samples, &mut |document| {
        documents.push(document);
        Ok(())
    })?;
    Ok(documents)
}

/// The runs in a file, with the typical ranges of their hosts. Samples that nobody wants are
/// dropped run by run.
fn each_in_file(
    path: &Path,
    samples: bool,
    each: &mut dyn FnMut(Document) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let name = path.display();
    let opened = File::open(path).map_err(|error| {
        let cause = system_cause(&error, Activity::Read);
        let remedy = match cause.remedy {
            None => "; name a stored run or a file of `fathom run --json`",
            Some(_) => "",
        };
        anyhow!("open {name}: {cause}{remedy}")
    })?;
    documents::each(opened, &name.to_string(), &mut |mut document| {
        if !samples {
            document.records.iter_mut().for_each(|record| record.samples = None);
        }
        typical::fill(&mut document);
        each(document)
    })
}
