//! The store and the runs in it, as command lines name them.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use fathom_engine::nearest_of;
use fathom_measure::host;
use fathom_probes::REGISTRY;
use fathom_record::Document;
use fathom_record::host::name_with_id;
use fathom_store::{RunRow, Store, StoreError};

use super::documents;
use crate::arguments::StoreArguments;

/// The named store, or the one in the user's data folder.
pub(super) fn store_path(arguments: &StoreArguments) -> anyhow::Result<PathBuf> {
    match named_store(arguments) {
        Some(path) => Ok(path),
        None => Ok(Store::default_path()?),
    }
}

/// The store of `--store` or FATHOM_STORE.
pub(super) fn named_store(arguments: &StoreArguments) -> Option<PathBuf> {
    let by_environment = std::env::var_os("FATHOM_STORE").filter(|path| !path.is_empty());
    arguments.store.clone().or(by_environment.map(PathBuf::from))
}

/// Opens the store, which must exist.
pub(super) fn open_store(arguments: &StoreArguments) -> anyhow::Result<Store> {
    Ok(Store::open_existing(&store_path(arguments)?)?)
}

/// A run of the store (by id, label, or the name of its host) or a JSON document. A name that ends
/// with `.json`, has a slash, or is an existing file is a path; `latest` is always a run.
pub(super) fn document(
    name: &str,
    samples: bool,
    arguments: &StoreArguments,
) -> anyhow::Result<Document> {
    let is_file = !name.starts_with("latest") && Path::new(name).is_file();
    if name.ends_with(".json") || name.contains('/') || is_file {
        return document_in_file(Path::new(name));
    }
    let store = open_store(arguments)?;
    let id = match store.resolve(name) {
        Ok(id) => id,
        Err(error) => newest_of_host(&store, name)?.ok_or_else(|| unknown(name, error))?,
    };
    store.document(&id, samples).with_context(|| format!("read run {id}"))
}

/// The latest run of this host, or of any if this host has none.
pub(super) fn latest_of_this_host(
    samples: bool,
    arguments: &StoreArguments,
) -> anyhow::Result<Document> {
    let store = open_store(arguments)?;
    let host = host::read();
    match store.runs()?.into_iter().find(|row| row.host() == host.identity()) {
        Some(row) => {
            store.document(&row.id, samples).with_context(|| format!("read run {}", row.id))
        }
        None => document("latest", samples, arguments),
    }
}

/// A shorter prefix of a host id could be a word.
pub(super) const ID_DIGITS_MIN: usize = 4;

/// The identities of the hosts with this name or id prefix, with a name of each.
pub(super) fn hosts_named(runs: &[RunRow], word: &str) -> BTreeMap<String, String> {
    let has_id = |row: &RunRow| {
        let id = row.host_id.as_deref();
        word.len() >= ID_DIGITS_MIN && id.is_some_and(|id| id.starts_with(word))
    };
    let matching = runs.iter().filter(|row| row.host_name == word || has_id(row));
    matching.map(|row| (row.host().to_owned(), row.host_name.clone())).collect()
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
    let runs = store.runs()?;
    let hosts = hosts_named(&runs, word);
    if hosts.len() > 1 {
        let ids: Vec<String> =
            hosts.iter().map(|(id, name)| name_with_id(name, Some(id))).collect();
        bail!("{word}: several hosts have this name: {}; name an id", ids.join(", "));
    }
    let newest = runs.iter().find(|row| hosts.contains_key(row.host()) && row.counts.total() > 0);
    Ok(newest.map(|row| row.id.clone()))
}

fn document_in_file(path: &Path) -> anyhow::Result<Document> {
    let name = path.display();
    let opened = File::open(path).map_err(|error| {
        anyhow!("open {name}: {error}; name a stored run or a file of `fathom run --json`")
    })?;
    let mut documents = documents::read(opened, &name.to_string())?;
    let document = documents.swap_remove(0);
    match documents.len() {
        0 => Ok(document),
        more => bail!("{name} has {} runs; `fathom import` stores them one by one", more + 1),
    }
}
