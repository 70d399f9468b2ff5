use super::*;

/// A disk with a file `a`, synced with its name.
fn with_file(synced: &[u8]) -> (DiskState, u64) {
    let mut state = DiskState::default();
    let name = "a".to_owned();
    let create = DiskChange::Create { folder: ROOT, name, mode: 0o600, is_folder: false };
    let node = state.apply(&create).unwrap();
    let write = DiskChange::Write { node, at: 0, bytes: synced.to_vec() };
    for change in [write, DiskChange::Sync { node }, DiskChange::Sync { node: ROOT }] {
        state.apply(&change).unwrap();
    }
    (state, node)
}

fn content(state: &DiskState) -> Option<Vec<u8>> {
    let node = state.child(ROOT, "a").ok()?;
    Some(state.read(node, 0..u64::MAX).unwrap())
}

#[test]
fn names_are_synced_with_their_folder() {
    let (mut state, node) = with_file(b"old");
    let name = "a".to_owned();
    state.apply(&DiskChange::Remove { folder: ROOT, name, is_folder: false }).unwrap();
    assert_eq!(content(&state), None);
    assert_eq!(content(&state.after_power_cut(Survivors::None)).unwrap(), b"old");
    state.apply(&DiskChange::Sync { node: ROOT }).unwrap();
    assert_eq!(content(&state.after_power_cut(Survivors::None)), None);
    let name = "b".to_owned();
    let create = DiskChange::Create { folder: ROOT, name, mode: 0o600, is_folder: false };
    let other = state.apply(&create).unwrap();
    assert_ne!(other, node);
    state.apply(&DiskChange::Sync { node: other }).unwrap();
    let cut = state.after_power_cut(Survivors::None);
    assert_eq!(cut.child(ROOT, "b"), Err(Errno::NOENT), "the file is synced, its name is not");
}

#[test]
fn truncated_and_regrown_file_is_zero() {
    let (mut state, node) = with_file(&[7; 2000]);
    for length in [100, 2000] {
        state.apply(&DiskChange::Resize { node, length }).unwrap();
    }
    let all = content(&state.after_power_cut(Survivors::All)).unwrap();
    assert_eq!((all.len(), &all[..100], &all[100..]), (2000, &[7; 100][..], &[0; 1900][..]));
    assert_eq!(content(&state.after_power_cut(Survivors::None)).unwrap(), [7; 2000]);
}

#[test]
fn sectors_survive_individually() {
    let (mut state, node) = with_file(&[0; 64 * SECTOR_BYTES]);
    state.apply(&DiskChange::Write { node, at: 0, bytes: vec![1; 64 * SECTOR_BYTES] }).unwrap();
    let left = |seed| content(&state.after_power_cut(Survivors::Some(seed))).unwrap();
    let sectors: Vec<u8> = left(1).chunks(SECTOR_BYTES).map(|sector| sector[0]).collect();
    let survived = sectors.iter().filter(|byte| **byte == 1).count();
    assert!((10..54).contains(&survived), "{sectors:?}");
    assert!(left(1).chunks(SECTOR_BYTES).all(|one| one.iter().all(|byte| *byte == one[0])));
    assert_eq!(left(1), left(1));
    assert_ne!(left(1), left(2));
}

#[test]
fn rename_replaces_a_file() {
    let (mut state, _) = with_file(b"old");
    let name = "b".to_owned();
    let create = DiskChange::Create { folder: ROOT, name, mode: 0o600, is_folder: false };
    let node = state.apply(&create).unwrap();
    state.apply(&DiskChange::Write { node, at: 0, bytes: b"new".to_vec() }).unwrap();
    let rename = DiskChange::Rename { from: (ROOT, "b".to_owned()), to: (ROOT, "a".to_owned()) };
    state.apply(&rename).unwrap();
    assert_eq!(content(&state).unwrap(), b"new");
    assert_eq!(state.folder(ROOT).unwrap().current.len(), 1);
    assert_eq!(content(&state.after_power_cut(Survivors::None)).unwrap(), b"old");
}
