//! The id of a machine: a hash of its machine-id and hardware, independent of its host name. Of one
//! that the user named it is a hash of this name and the hardware: machines of one image, and
//! containers, may share a machine-id.
//!
//! It uses only facts that all users can read, that survive a reboot and that are the same in each
//! namespace: a network namespace has other cards. The serial number of DMI is readable by root
//! only, who would have another id. The number of CPUs and the size of memory change when a virtual
//! machine is resized.

use fathom_record::Host;
use fathom_record::host::{ID_BY_NAME, NAME_VARIABLE};
use hmac_sha256::HMAC;

use super::HostSources;
use super::network::FOLDER as LINKS;
use super::user_mode::user_mode;
use crate::tree::{FileTree, TreeFact, keep};

/// As in `sd_id128_get_machine_app_specific(3)`: the machine-id is the key and stays confidential,
/// and each program has its own hash. Must never change.
const PURPOSE: &str = "fathom-host-1\n";
const MACHINE_IDS: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
const MACHINE_ID_DIGITS: usize = 32;
/// Of CPU 0: the first allowed CPU may differ on a hybrid CPU.
const CPU: [&str; 8] = [
    "vendor_id",
    "cpu family",
    "model",
    "model name",
    "stepping",
    "CPU implementer",
    "CPU part",
    "CPU revision",
];
const SERIAL: &str = "/proc/device-tree/serial-number";
/// Half of the hash: enough against collisions.
const ID_BYTES: usize = 16;

pub(super) fn read(sources: &HostSources, host: &mut Host) {
    keep!(host.name, sources.name.clone().map(|name| TreeFact::new(name, NAME_VARIABLE)));
    keep!(host.id, id(sources, &host.name, None));
}

/// The id with the address of a network card, which versions up to 0.2.0 had; `None` where they had
/// the same.
pub(super) fn former_id(sources: &HostSources, name: &str) -> Option<String> {
    Some(id(sources, name, Some(address(&sources.tree)?))?.value)
}

fn id(
    sources: &HostSources,
    name: &str,
    address: Option<TreeFact<String>>,
) -> Option<TreeFact<String>> {
    let tree = &sources.tree;
    let machine_id = || MACHINE_IDS.iter().find_map(|path| tree.value(path, machine_id));
    let mut parts = vec![TreeFact::new(cpu(sources), "/proc/cpuinfo")];
    parts.extend(tree.fact(SERIAL));
    parts.extend(address);
    let emulated = |place| TreeFact::new(std::env::consts::ARCH.to_owned(), place);
    parts.extend(user_mode(sources).map(emulated));
    parts.retain(|part| !part.value.is_empty());
    let (key, place) = match (&sources.name, machine_id()) {
        (Some(_), _) => (String::new(), NAME_VARIABLE.to_owned()),
        (None, Some(id)) => (id.value, id.origin),
        (None, None) if parts.is_empty() => return None,
        (None, None) => (String::new(), ID_BY_NAME.to_owned()),
    };
    // A host name can change: it is used only if nothing else distinguishes clones.
    let name = if key.is_empty() { name } else { "" };
    let texts = parts.iter().map(|part| part.value.as_str()).chain([name]);
    let text = texts.fold(PURPOSE.to_owned(), |text, part| text + part + "\n");
    let hash = HMAC::mac(text.as_bytes(), key.as_bytes());
    let id = hash[..ID_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
    let places = parts.into_iter().fold(place, |places, part| places + ", " + &part.origin);
    Some(TreeFact::new(id, format!("HMAC-SHA-256 of {places}")))
}

/// Before the first boot of an image, the file has `uninitialized` or is empty. Zeros are no id.
fn machine_id(text: &str) -> Option<String> {
    let is_id = text.len() == MACHINE_ID_DIGITS && text.chars().all(|c| c.is_ascii_hexdigit());
    let is_id = is_id && text.chars().any(|c| c != '0');
    is_id.then(|| text.to_owned())
}

fn cpu(sources: &HostSources) -> String {
    let first = sources.cpuinfo.cpus().and_then(|cpus| cpus.value.first().copied());
    let values = CPU.iter().filter_map(|key| sources.cpuinfo.fact_of(first?, key));
    values.map(|fact| fact.value).collect::<Vec<String>>().join("\n")
}

/// The lowest address of a built-in network card. USB cards are removable, and wireless cards may
/// have random addresses.
fn address(tree: &FileTree) -> Option<TreeFact<String>> {
    let of_link = |name: String| {
        let file = |file: &str| format!("{LINKS}/{name}/{file}");
        let bus = tree.link(&file("device/subsystem")).unwrap_or_default();
        let is_built_in = tree.exists(&file("device")) && !bus.ends_with("/usb");
        let is_permanent = tree.parsed::<u32>(&file("addr_assign_type")) == Some(0);
        let is_wired = !tree.exists(&file("phy80211"));
        (is_built_in && is_permanent && is_wired).then(|| tree.fact(&file("address")))?
    };
    let addresses = tree.names(LINKS).into_iter().filter_map(of_link);
    addresses.min_by(|a, b| a.value.cmp(&b.value))
}
