//! The collection of typical machines: rows of runs, or of other collections, are added to it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use fathom_analysis::typical::{GROUP_MIN, TypicalMachine, collection, rows};

const COLLECTION: &str = "data/typical/machines.csv";

/// Adds the machines of these files; of two rows of one type the later measurement is kept. Prints
/// counts.
pub(crate) fn add(root: &Path, files: &[&str]) -> Result<(), String> {
    let path = root.join(COLLECTION);
    let read = |path: &Path| {
        let text = fs::read_to_string(path).map_err(|error| format!("{error}"));
        text.and_then(|text| rows(&text)).map_err(|error| format!("{}: {error}", path.display()))
    };
    // The first collection begins with none.
    let known = if path.exists() { read(&path)? } else { Vec::new() };
    let added = files.iter().map(|file| read(Path::new(file))).collect::<Result<Vec<_>, _>>()?;
    let (merged, new, replaced) = merged(known, added.concat())?;
    fs::write(&path, collection(&merged)).map_err(|error| format!("{COLLECTION}: {error}"))?;
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    merged.iter().for_each(|one| *kinds.entry(&one.kind).or_default() += 1);
    for (kind, count) in &kinds {
        println!("{count:5}  {kind}");
    }
    let groups = kinds.values().filter(|count| **count >= GROUP_MIN).count();
    println!(
        "{} machine types ({new} new, {replaced} replaced by a later measurement) with {} kinds of \
         CPU, {groups} of them with at least {GROUP_MIN}",
        merged.len(),
        kinds.len()
    );
    Ok(())
}

/// All machines, and how many are new or replace another.
fn merged(
    known: Vec<TypicalMachine>,
    added: Vec<TypicalMachine>,
) -> Result<(Vec<TypicalMachine>, usize, usize), String> {
    let key = |one: &TypicalMachine| (one.provider.clone(), one.name.clone());
    let mut all: BTreeMap<_, TypicalMachine> =
        known.into_iter().map(|one| (key(&one), one)).collect();
    let (mut new, mut replaced) = (0, 0);
    for one in added {
        match all.get(&key(&one)) {
            None => new += 1,
            Some(old) if old.date < one.date => replaced += 1,
            Some(old) if *old == one => continue,
            Some(old) => {
                let name = format!("{}/{}", one.provider, one.name);
                return Err(format!(
                    "{name} of {}: the collection has another measurement of {}",
                    one.date, old.date
                ));
            }
        }
        all.insert(key(&one), one);
    }
    Ok((all.into_values().collect(), new, replaced))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str, date: &str, ns: f64) -> TypicalMachine {
        let text = format!(
            "provider,type,cpu_vendor,cpu_family,cpu_model,cpu_name,cpus,hypervisor,l3_bytes,date,\
             latency_ns,read_bytes_per_s,write_bytes_per_s,copy_bytes_per_s\n\
             p,{name},AuthenticAMD,25,17,AMD EPYC 9B14,2,KVM,,{date},4194304:{ns},,,\n"
        );
        rows(&text).unwrap().remove(0)
    }

    #[test]
    fn a_later_measurement_replaces_and_a_second_of_the_same_day_is_refused() {
        let [old, new] = [machine("a", "2026-01-01", 10.0), machine("a", "2026-02-01", 20.0)];
        let other = machine("b", "2026-01-01", 30.0);
        let added = vec![new.clone(), other.clone()];
        assert_eq!(merged(vec![old.clone()], added), Ok((vec![new.clone(), other], 1, 1)));
        assert_eq!(merged(vec![old.clone()], vec![old.clone()]), Ok((vec![old.clone()], 0, 0)));
        let same_day = machine("a", "2026-01-01", 11.0);
        for refused in [same_day, machine("a", "2025-12-31", 10.0)] {
            let error = merged(vec![old.clone()], vec![refused]).unwrap_err();
            assert!(error.contains("p/a of 202") && error.contains("2026-01-01"), "{error}");
        }
    }
}
