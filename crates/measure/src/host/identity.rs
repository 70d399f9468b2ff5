//! Which machine this is, whatever its name: a hash of its machine-id and its hardware.
//!
//! Only what every user reads alike and what outlasts a reboot is in it. The serial number of DMI
//! is root's alone, so that root and others would be on two hosts; the number of CPUs and the size
//! of memory change when a virtual machine is resized, and are compared as settings.

use fathom_record::Host;
use hmac_sha256::HMAC;

use super::Sources;
use super::network::FOLDER as LINKS;
use super::tree::{Fact, Tree, keep};

/// As `sd_id128_get_machine_app_specific(3)` has it: the machine-id is the key and never leaves
/// the machine, and other programs make other hashes of it. Never changed.
const PURPOSE: &str = "fathom-host-1\n";
const MACHINE_IDS: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
const MACHINE_ID_DIGITS: usize = 32;
/// Of the first CPU of all: the first that is allowed can be another on a hybrid.
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
/// Half of the hash, which no two machines share by chance.
const ID_BYTES: usize = 16;

pub(super) fn read(sources: &Sources, host: &mut Host) {
    keep!(host.id, id(sources, &host.name));
}

fn id(sources: &Sources, name: &str) -> Option<Fact<String>> {
    let tree = &sources.tree;
    let machine_id = MACHINE_IDS.iter().find_map(|path| tree.value(path, machine_id));
    let mut parts = vec![Fact::new(cpu(sources), "/proc/cpuinfo")];
    parts.extend(tree.fact(SERIAL));
    parts.extend(address(tree));
    parts.retain(|part| !part.value.is_empty());
    if machine_id.is_none() && parts.is_empty() {
        return None;
    }
    let (key, place) = match machine_id {
        Some(id) => (id.value, id.origin),
        None => (String::new(), "no machine-id: the host's name".to_owned()),
    };
    // A name is for people, who change it; it stands in only where nothing else parts clones.
    let name = if key.is_empty() { name } else { "" };
    let texts = parts.iter().map(|part| part.value.as_str()).chain([name]);
    let text = texts.fold(PURPOSE.to_owned(), |text, part| text + part + "\n");
    let hash = HMAC::mac(text.as_bytes(), key.as_bytes());
    let id = hash[..ID_BYTES].iter().map(|byte| format!("{byte:02x}")).collect();
    let places = parts.into_iter().fold(place, |places, part| places + ", " + &part.origin);
    Some(Fact::new(id, format!("HMAC-SHA-256 of {places}")))
}

/// The first boot of an image finds `uninitialized` there, or nothing.
fn machine_id(text: &str) -> Option<String> {
    let is_id = text.len() == MACHINE_ID_DIGITS && text.chars().all(|c| c.is_ascii_hexdigit());
    is_id.then(|| text.to_owned())
}

fn cpu(sources: &Sources) -> String {
    let first = sources.cpuinfo.cpus().and_then(|cpus| cpus.value.first().copied());
    let values = CPU.iter().filter_map(|key| sources.cpuinfo.of(first?, key));
    values.map(|fact| fact.value).collect::<Vec<String>>().join("\n")
}

/// The lowest address of a built-in network card, which parts images with one machine-id. Those of
/// USB come and go, those of wireless cards are drawn at random, and order of names can change.
fn address(tree: &Tree) -> Option<Fact<String>> {
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
