//! Finding the store and the runs in it, for every command that reads or writes them.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use fathom_measure::host;
use fathom_record::Document;
use fathom_record::host::name_with_id;
use fathom_store::{RunRow, Store, StoreError};

use super::documents;
use crate::arguments::StoreArguments;

/// Where the store lies: as asked for, or in the user's data folder.
pub(super) fn path(arguments: &StoreArguments) -> anyhow::Result<PathBuf> {
    match named(arguments) {
        Some(path) => Ok(path),
        None => Ok(Store::default_path()?),
    }
}

/// Where the person says it lies, if at all.
pub(super) fn named(arguments: &StoreArguments) -> Option<PathBuf> {
    let by_hand = std::env::var_os("FATHOM_STORE").filter(|path| !path.is_empty());
    arguments.store.clone().or(by_hand.map(PathBuf::from))
}

/// The store, for reading.
pub(super) fn open(arguments: &StoreArguments) -> anyhow::Result<Store> {
    let path = path(arguments)?;
    Ok(Store::open_existing(&path)?)
}

/// A run by its name in the store (an id, a label, a host for its newest), or a JSON document by
/// its path: what ends with `.json`, has a slash, or is an existing file. (`latest` is always a
/// run; `./latest` may be a file.)
pub(super) fn document(
    name: &str,
    samples: bool,
    arguments: &StoreArguments,
) -> anyhow::Result<Document> {
    let is_there = !name.starts_with("latest") && Path::new(name).is_file();
    if name.ends_with(".json") || name.contains('/') || is_there {
        return from_file(Path::new(name));
    }
    let store = open(arguments)?;
    let id = match store.resolve(name) {
        Ok(id) => id,
        Err(error) => newest_of(&store, name)?.ok_or_else(|| unknown(name, error))?,
    };
    store.document(&id, samples).with_context(|| format!("read run {id}"))
}

/// The last run of this host; of any where this one has none.
pub(super) fn latest_of_this_host(
    samples: bool,
    arguments: &StoreArguments,
) -> anyhow::Result<Document> {
    let store = open(arguments)?;
    let host = host::read();
    let runs = store.runs()?;
    match runs.into_iter().find(|row| row.host() == host.identity()) {
        Some(row) => {
            store.document(&row.id, samples).with_context(|| format!("read run {}", row.id))
        }
        None => document("latest", samples, arguments),
    }
}

/// Fewer digits could be a word.
pub(super) const ID_DIGITS_MIN: usize = 4;

/// The hosts of kept runs that have this name or an id that begins so, by what they are known by,
/// with a name of each.
pub(super) fn hosts_of(runs: &[RunRow], word: &str) -> BTreeMap<String, String> {
    let has_id = |row: &RunRow| {
        let id = row.host_id.as_deref();
        word.len() >= ID_DIGITS_MIN && id.is_some_and(|id| id.starts_with(word))
    };
    let of_word = runs.iter().filter(|row| row.host_name == word || has_id(row));
    of_word.map(|row| (row.host().to_owned(), row.host_name.clone())).collect()
}

/// What is said of a name that is nothing: it could have been three things.
fn unknown(name: &str, error: StoreError) -> anyhow::Error {
    match error {
        StoreError::BadName { .. } | StoreError::TooShort { .. } | StoreError::NoSuchRun { .. }
            if !name.starts_with("latest") =>
        {
            anyhow!(
                "find run {name}: no kept run has this id or label, no host with kept runs has \
                 this name, and there is no such file; `fathom show --runs` lists the runs"
            )
        }
        error => error.into(),
    }
}

/// The newest run with a result of the host of this name or id.
fn newest_of(store: &Store, word: &str) -> anyhow::Result<Option<String>> {
    let runs = store.runs()?;
    let hosts = hosts_of(&runs, word);
    if hosts.len() > 1 {
        let ids: Vec<String> =
            hosts.iter().map(|(id, name)| name_with_id(name, Some(id))).collect();
        bail!("find run {word}: several hosts have this name: {}; name an id", ids.join(", "));
    }
    let newest = runs.iter().find(|row| hosts.contains_key(row.host()) && row.counts.total() > 0);
    Ok(newest.map(|row| row.id.clone()))
}

fn from_file(path: &Path) -> anyhow::Result<Document> {
    let shown = path.display();
    let opened = File::open(path).map_err(|error| {
        anyhow!("open {shown}: {error}; name a kept run or a file of `fathom run --json`")
    })?;
    let mut documents = documents::read(opened, &shown.to_string())?;
    let document = documents.swap_remove(0);
    match documents.len() {
        0 => Ok(document),
        more => bail!("{shown} holds {} runs; `fathom import` keeps them apart", more + 1),
    }
}
