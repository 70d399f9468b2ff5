//! The content of a disk: the current and the synced state of each file and folder.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::Path;

use rustix::io::Errno;

use super::Survivors;
use crate::seeded::Seeded;

/// Inode number of the root folder.
pub(crate) const ROOT: u64 = 1;

/// Unit of survival in a power cut.
const SECTOR_BYTES: usize = 512;

#[derive(Clone, Debug)]
pub(crate) enum DiskChange {
    Create { folder: u64, name: String, mode: u32, is_folder: bool },
    Remove { folder: u64, name: String, is_folder: bool },
    Rename { from: (u64, String), to: (u64, String) },
    Write { node: u64, at: u64, bytes: Vec<u8> },
    Resize { node: u64, length: u64 },
    SetMode { node: u64, mode: u32 },
    Sync { node: u64 },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes {
    pub(crate) is_folder: bool,
    pub(crate) mode: u32,
    pub(crate) length: u64,
    pub(crate) links: u32,
    /// Incremented by every change of the content; the modification time.
    pub(crate) version: u64,
}

#[derive(Clone, Debug)]
struct DiskNode {
    mode: u32,
    links: u32,
    version: u64,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    File(DiskFile),
    Folder(DiskFolder),
}

#[derive(Clone, Debug, Default)]
struct DiskFile {
    current: Vec<u8>,
    synced: Vec<u8>,
    /// Sectors written since the last sync.
    dirty: BTreeSet<usize>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DiskFolder {
    pub(crate) current: BTreeMap<String, u64>,
    synced: BTreeMap<String, u64>,
}

#[derive(Debug)]
pub(crate) struct DiskState {
    /// Nodes are never removed: a power cut may restore their names.
    nodes: BTreeMap<u64, DiskNode>,
}

impl Default for DiskState {
    fn default() -> Self {
        let root = DiskNode::new(0o755, Content::Folder(DiskFolder::default()));
        Self { nodes: [(ROOT, root)].into() }
    }
}

impl DiskNode {
    fn new(mode: u32, content: Content) -> Self {
        Self { mode, links: 1, version: 0, content }
    }
}

impl DiskState {
    fn node(&self, node: u64) -> Result<&DiskNode, Errno> {
        self.nodes.get(&node).ok_or(Errno::NOENT)
    }

    fn node_mut(&mut self, node: u64) -> Result<&mut DiskNode, Errno> {
        self.nodes.get_mut(&node).ok_or(Errno::NOENT)
    }

    pub(crate) fn folder(&self, node: u64) -> Result<&DiskFolder, Errno> {
        match &self.node(node)?.content {
            Content::Folder(folder) => Ok(folder),
            Content::File(_) => Err(Errno::NOTDIR),
        }
    }

    fn folder_mut(&mut self, node: u64) -> Result<&mut DiskFolder, Errno> {
        match &mut self.node_mut(node)?.content {
            Content::Folder(folder) => Ok(folder),
            Content::File(_) => Err(Errno::NOTDIR),
        }
    }

    /// A file to change; increments its version.
    fn file_mut(&mut self, node: u64) -> Result<&mut DiskFile, Errno> {
        let node = self.node_mut(node)?;
        node.version += 1;
        match &mut node.content {
            Content::File(file) => Ok(file),
            Content::Folder(_) => Err(Errno::ISDIR),
        }
    }

    pub(crate) fn child(&self, folder: u64, name: &str) -> Result<u64, Errno> {
        self.folder(folder)?.current.get(name).copied().ok_or(Errno::NOENT)
    }

    pub(crate) fn attributes(&self, node: u64) -> Result<Attributes, Errno> {
        let DiskNode { mode, links, version, content } = self.node(node)?;
        let (is_folder, length) = match content {
            Content::File(file) => (false, file.current.len() as u64),
            Content::Folder(_) => (true, 0),
        };
        Ok(Attributes { is_folder, mode: *mode, length, links: *links, version: *version })
    }

    pub(crate) fn read(&self, node: u64, bytes: Range<u64>) -> Result<Vec<u8>, Errno> {
        let Content::File(file) = &self.node(node)?.content else { return Err(Errno::ISDIR) };
        let end = bytes.end.min(file.current.len() as u64);
        Ok(file.current[bytes.start.min(end) as usize..end as usize].to_vec())
    }

    pub(crate) fn has_name(&self, node: u64, name: &str) -> bool {
        self.nodes.values().any(|one| match &one.content {
            Content::Folder(folder) => folder.current.get(name) == Some(&node),
            Content::File(_) => false,
        })
    }

    /// Makes a change; returns the number of a created node.
    pub(crate) fn apply(&mut self, change: &DiskChange) -> Result<u64, Errno> {
        match change {
            DiskChange::Create { folder, name, mode, is_folder } => {
                return self.create(*folder, name, *mode, *is_folder);
            }
            DiskChange::Remove { folder, name, is_folder } => {
                self.remove(*folder, name, *is_folder)?;
            }
            DiskChange::Rename { from, to } => self.rename(from, to)?,
            DiskChange::Write { node, at, bytes } => {
                self.file_mut(*node)?.write(*at as usize, bytes)
            }
            DiskChange::Resize { node, length } => self.file_mut(*node)?.resize(*length as usize),
            DiskChange::SetMode { node, mode } => self.node_mut(*node)?.mode = *mode,
            DiskChange::Sync { node } => match &mut self.node_mut(*node)?.content {
                Content::File(file) => file.sync(),
                Content::Folder(folder) => folder.synced = folder.current.clone(),
            },
        }
        Ok(0)
    }

    fn create(&mut self, at: u64, name: &str, mode: u32, is_folder: bool) -> Result<u64, Errno> {
        let number = ROOT + self.nodes.len() as u64;
        let folder = self.folder_mut(at)?;
        if folder.current.contains_key(name) {
            return Err(Errno::EXIST);
        }
        folder.current.insert(name.to_owned(), number);
        let content = match is_folder {
            true => Content::Folder(DiskFolder::default()),
            false => Content::File(DiskFile::default()),
        };
        self.nodes.insert(number, DiskNode::new(mode & 0o7777, content));
        Ok(number)
    }

    fn remove(&mut self, at: u64, name: &str, is_folder: bool) -> Result<(), Errno> {
        let number = self.child(at, name)?;
        match &self.node(number)?.content {
            Content::Folder(_) if !is_folder => return Err(Errno::ISDIR),
            Content::File(_) if is_folder => return Err(Errno::NOTDIR),
            Content::Folder(folder) if !folder.current.is_empty() => return Err(Errno::NOTEMPTY),
            _ => {}
        }
        self.folder_mut(at)?.current.remove(name);
        self.node_mut(number)?.links = 0;
        Ok(())
    }

    fn rename(&mut self, from: &(u64, String), to: &(u64, String)) -> Result<(), Errno> {
        let number = self.child(from.0, &from.1)?;
        if let Ok(replaced) = self.child(to.0, &to.1)
            && replaced != number
        {
            let is_folder = matches!(self.node(replaced)?.content, Content::Folder(_));
            self.remove(to.0, &to.1, is_folder)?;
        }
        self.folder_mut(from.0)?.current.remove(&from.1);
        self.folder_mut(to.0)?.current.insert(to.1.clone(), number);
        Ok(())
    }

    pub(crate) fn after_power_cut(&self, survivors: Survivors) -> Self {
        let mut random = match survivors {
            Survivors::Some(seed) => Some(Seeded(seed)),
            Survivors::None | Survivors::All => None,
        };
        let mut survives = || match &mut random {
            Some(random) => random.coin(),
            None => survivors == Survivors::All,
        };
        let nodes = self.nodes.iter().map(|(number, node)| {
            let content = match &node.content {
                Content::File(file) => Content::File(file.after_power_cut(&mut survives)),
                Content::Folder(one) => Content::Folder(one.after_power_cut(&mut survives)),
            };
            (*number, DiskNode { content, ..node.clone() })
        });
        Self { nodes: nodes.collect() }
    }

    pub(crate) fn copy_to(&self, folder: u64, to: &Path) -> io::Result<()> {
        for (name, number) in &self.folder(folder)?.current {
            let to = to.join(name);
            match &self.node(*number)?.content {
                Content::File(file) => std::fs::write(to, &file.current)?,
                Content::Folder(_) => {
                    std::fs::create_dir(&to)?;
                    self.copy_to(*number, &to)?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn describe(&self, change: &DiskChange) -> String {
        let name = |node: u64| {
            let folders = self.nodes.values().filter_map(|one| match &one.content {
                Content::Folder(folder) => Some(&folder.current),
                Content::File(_) => None,
            });
            let mut names = folders.flatten().filter(|(_, number)| **number == node);
            names.next().map_or_else(|| format!("node {node}"), |(name, _)| name.clone())
        };
        match change {
            DiskChange::Create { name, .. } => format!("create {name}"),
            DiskChange::Remove { name, .. } => format!("remove {name}"),
            DiskChange::Rename { from, to } => format!("rename {} to {}", from.1, to.1),
            DiskChange::Write { node, at, bytes } => {
                format!("write {} bytes at {at} of {}", bytes.len(), name(*node))
            }
            DiskChange::Resize { node, length } => format!("resize {} to {length}", name(*node)),
            DiskChange::SetMode { node, .. } => format!("set the mode of {}", name(*node)),
            DiskChange::Sync { node } => format!("sync {}", name(*node)),
        }
    }
}

impl DiskFile {
    fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if end > self.current.len() {
            self.current.resize(end, 0);
        }
        self.current[at..end].copy_from_slice(bytes);
        self.dirty.extend(at / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES));
    }

    fn resize(&mut self, length: usize) {
        self.current.resize(length, 0);
        // The truncated sectors are lost, even if the file grows again.
        self.dirty.extend(length / SECTOR_BYTES..self.synced.len().div_ceil(SECTOR_BYTES));
    }

    fn sync(&mut self) {
        self.synced = self.current.clone();
        self.dirty.clear();
    }

    fn after_power_cut(&self, survives: &mut impl FnMut() -> bool) -> Self {
        let length = if survives() { self.current.len() } else { self.synced.len() };
        let mut left = self.synced.clone();
        left.resize(length, 0);
        for sector in self.dirty.iter().filter(|_| survives()) {
            let start = sector * SECTOR_BYTES;
            let end = (start + SECTOR_BYTES).min(length).min(self.current.len());
            if start < end {
                left[start..end].copy_from_slice(&self.current[start..end]);
            }
        }
        Self { current: left.clone(), synced: left, dirty: BTreeSet::new() }
    }
}

impl DiskFolder {
    fn after_power_cut(&self, survives: &mut impl FnMut() -> bool) -> Self {
        let names: BTreeSet<&String> = self.current.keys().chain(self.synced.keys()).collect();
        let mut left = BTreeMap::new();
        for name in names {
            let (current, synced) = (self.current.get(name), self.synced.get(name));
            let number = match current == synced || !survives() {
                true => synced,
                false => current,
            };
            left.extend(number.map(|number| (name.clone(), *number)));
        }
        Self { current: left.clone(), synced: left }
    }
}

#[cfg(test)]
mod tests;
