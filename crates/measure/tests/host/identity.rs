//! Host ids: what changes them, and what does not.

use crate::fixture::HostMachine;

const MACHINE_ID: &str = "5d1219c7c4c5404aaa1f6d2a48adfda4";

fn id(machine: &HostMachine) -> String {
    machine.read().id.unwrap()
}

/// The laptop with its machine-id.
fn laptop() -> HostMachine {
    crate::laptop::machine().with(&format!("/etc/machine-id = {MACHINE_ID}"))
}

#[test]
fn renamed_or_resized_machine_keeps_its_id() {
    let before = id(&laptop());
    let name = "/proc/sys/kernel/hostname = dunlin";
    let larger = "/sys/devices/system/cpu/online = 0-3\n/proc/meminfo = MemTotal: 8 kB";
    let kernel = "/proc/sys/kernel/osrelease = 7.0.1\n/sys/class/dmi/id/product_uuid = 42";
    for change in [name, larger, kernel, "/proc/self/status = Cpus_allowed_list:\\t4-5"] {
        assert_eq!(id(&laptop().with(change)), before, "{change}");
    }
    assert_ne!(laptop().with(name).read().name, laptop().read().name);
}

#[test]
fn other_image_or_hardware_is_another_host() {
    let before = id(&laptop());
    let other = MACHINE_ID.replace('5', "6");
    assert_ne!(id(&laptop().with(&format!("/etc/machine-id = {other}"))), before);
    let mut replaced = laptop();
    let info = replaced.files.iter_mut().find(|(path, _)| path == "/proc/cpuinfo").unwrap();
    info.1 = String::from_utf8(info.1.clone()).unwrap().replace("i7-1260P", "i7-1280P").into();
    assert_ne!(id(&replaced), before);
}

/// A network namespace has a loopback interface, and cards without a device.
#[test]
fn network_namespace_is_the_same_host() {
    let mut inside = laptop();
    inside.files.retain(|(path, _)| !path.starts_with("/sys/class/net/"));
    let inside = inside.with("/sys/class/net/veth0/address = 02:00:00:00:00:02");
    assert_eq!(id(&inside), id(&laptop()));
    assert_eq!(inside.former_id(), None, "it was the same there");
}

#[test]
fn id_without_machine_id_uses_hardware_and_name() {
    let bare = crate::laptop::machine();
    for unset in ["uninitialized", "\n", &"0".repeat(32), "5d1219c7"] {
        let unset = bare.clone().with_file("/etc/machine-id", unset);
        assert_eq!(id(&bare), id(&unset));
    }
    assert_ne!(id(&bare), id(&laptop()));
    assert_ne!(id(&bare), id(&bare.clone().with("/proc/sys/kernel/hostname = dunlin")));
    let origin = |machine: &HostMachine| machine.read().origins["id"].clone();
    let rest = "/proc/cpuinfo";
    assert_eq!(origin(&bare), format!("HMAC-SHA-256 of no machine-id: the host's name, {rest}"));
    assert_eq!(origin(&laptop()), format!("HMAC-SHA-256 of /etc/machine-id, {rest}"));
}

/// Machines of one image.
#[test]
fn clones_are_told_apart_by_given_names() {
    let [a, b] = ["a", "b"].map(|name| laptop().read_as(name));
    assert_eq!((a.name.as_str(), b.name.as_str()), ("a", "b"));
    assert!(a.id.is_some() && a.id != b.id && a.id != laptop().read().id);
    // In another image, or a container without a machine-id, it is the same host.
    let other = format!("/etc/machine-id = {}", MACHINE_ID.replace('5', "6"));
    for image in [crate::laptop::machine(), laptop().with(&other)] {
        assert_eq!(image.read_as("a").id, a.id);
    }
    assert_eq!(a.origins["id"], "HMAC-SHA-256 of FATHOM_HOST, /proc/cpuinfo");
    assert_eq!(a.origins["name"], "FATHOM_HOST");
}

/// The stores of earlier versions have them, or those that are mapped.
#[test]
fn ids_never_change() {
    let bare = crate::laptop::machine();
    assert_eq!(laptop().former_id().unwrap(), "7c18a75917341c73602180f1e14ca1c6");
    assert_eq!(bare.former_id().unwrap(), "9176b7a36188bac12a3f810ce7a3e86b");
    assert_eq!(id(&laptop()), "bc1830f5265b7f01c54652bf43ac2345");
    assert_eq!(id(&bare), "62a4a272dc6f3f6d2f734c2fbc597463");
}

#[test]
fn passing_network_cards_did_not_count() {
    let before = laptop().former_id();
    for (kind, mark) in [("random", "addr_assign_type = 1"), ("wireless", "phy80211/index = 0")] {
        let card = "/sys/class/net/a0";
        let passing = laptop().with(&format!(
            "{card}/mtu = 1500\n{card}/address = 02:00:00:00:00:00\n{card}/device/uevent = X=1
            {card}/addr_assign_type = 0\n{card}/{mark}"
        ));
        assert_eq!(passing.former_id(), before, "{kind}");
    }
}

#[test]
fn raw_machine_id_is_in_no_document() {
    let document = serde_json::to_string(&laptop().read()).unwrap();
    assert!(!document.contains(MACHINE_ID), "{document}");
    assert_eq!(id(&laptop()).len(), 32);
}
