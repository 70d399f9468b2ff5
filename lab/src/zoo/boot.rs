//! Boots a machine: its kernel, its first file system, its disks, QEMU.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use fathom_lab::Unmet;

use super::machine::{Architecture, DISK_BYTES, ZooDisk, ZooMachine};
use super::output::ZooOutput;

/// After this QEMU is killed: a machine that hangs is wrong.
const SECONDS_MAX: u32 = 600;
/// The end of what a machine printed, for a machine that stopped early.
pub(super) const CONSOLE: &str = "console";

/// Where kernels and machines are kept, and the programs to try.
pub(super) struct BootPlace {
    pub(super) scripts: PathBuf,
    pub(super) folder: PathBuf,
    pub(super) x86: PathBuf,
    pub(super) arm: PathBuf,
}

/// What a machine printed, and the release of its kernel.
pub(super) struct Booted {
    pub(super) output: ZooOutput,
    pub(super) release: String,
}

impl BootPlace {
    /// Unpacks the kernel of a machine.
    ///
    /// # Errors
    /// [`Unmet`] if it cannot be had.
    pub(super) fn kernel(&self, machine: &ZooMachine) -> Result<PathBuf> {
        let architecture = machine.kernel.architecture.debian();
        let kernels = self.folder.join("kernels");
        let mut fetch = Command::new(self.scripts.join("kernel.sh"));
        require(fetch.arg(&kernels).args([machine.kernel.series, architecture]))?;
        Ok(kernels.join(format!("{}-{architecture}", machine.kernel.series)))
    }

    /// An image of a Debian system with systemd.
    fn debian(&self) -> Result<PathBuf> {
        let image = self.folder.join("kernels/bookworm.img");
        let bytes = DISK_BYTES.to_string();
        require(Command::new(self.scripts.join("root.sh")).arg(&image).arg(bytes))?;
        Ok(image)
    }

    fn copy_units(&self, folder: &Path) -> Result<()> {
        copy(&self.scripts, &["units", "zoo.service"], folder)?;
        let units = self.scripts.join("../../scripts/systemd");
        let units = std::fs::read_dir(units).map_err(|error| Unmet(format!("units: {error}")))?;
        for unit in units {
            let unit = unit?;
            std::fs::copy(unit.path(), folder.join(unit.file_name()))?;
        }
        Ok(())
    }

    fn program(&self, machine: &ZooMachine) -> &Path {
        match machine.kernel.architecture {
            Architecture::X86 => &self.x86,
            Architecture::Arm => &self.arm,
        }
    }

    /// Boots a machine, and waits for its end.
    ///
    /// # Errors
    /// [`Unmet`] if a kernel, QEMU or a program of a file system is missing; otherwise if a file
    /// cannot be written.
    pub(super) fn boot(&self, machine: &ZooMachine) -> Result<Booted> {
        let program = self.program(machine);
        if !program.is_file() {
            let name = machine.kernel.architecture.name();
            return Err(Unmet(format!("no static program for {name}; run `make dist`")).into());
        }
        let kernel = self.kernel(machine)?;
        let release = std::fs::read_to_string(kernel.join("release")).context("release")?;
        if let Some(mib) = unpacked_mib(&kernel.join("vmlinuz"))?.filter(|mib| *mib > machine.mib) {
            let series = machine.kernel.series;
            return Err(Unmet(format!("Linux {series} needs {mib} MiB to unpack itself")).into());
        }
        // Firmware of a package.
        if let Some(file) =
            machine.arguments.iter().find(|it| it.starts_with('/') && !Path::new(it).exists())
        {
            return Err(Unmet(format!("no {file}")).into());
        }
        let here = self.folder.join("machines").join(machine.name);
        let _ = std::fs::remove_dir_all(&here);
        let [root, share] = [here.join("root"), here.join("share")];
        std::fs::create_dir_all(&root).and_then(|()| std::fs::create_dir(&share))?;
        copy(&self.scripts, &["init", "steps"], &root)?;
        std::fs::write(root.join("machine"), machine.settings())?;
        if machine.has_units {
            self.copy_units(&root)?;
        }
        let folder = if machine.is_small() { &share } else { &root };
        std::fs::copy(program, folder.join("fathom")).context("copy the program")?;
        let initial = here.join("initramfs");
        let mut make = Command::new(self.scripts.join("initramfs.sh"));
        require(make.args([&kernel, &root, &initial]).args(machine.modules()))?;

        let mut qemu = command(machine);
        qemu.arg("-kernel").arg(kernel.join("vmlinuz")).arg("-initrd").arg(&initial);
        for (number, disk) in machine.disks.iter().enumerate() {
            let image = here.join(format!("disk{number}"));
            if machine.has_units {
                std::fs::copy(self.debian()?, &image)?;
            } else {
                make_disk(disk, &image, machine.is_small().then_some(&share))?;
            }
            let drive = format!("if=none,id=d{number},format=raw,file={}", image.display());
            qemu.args(["-drive", &drive]);
        }
        if machine.places.contains(&"9p") {
            let share = format!("local,path={},mount_tag=zoo,security_model=none", share.display());
            qemu.args(["-virtfs", &share]);
        }
        let console = here.join(CONSOLE);
        qemu.stdin(Stdio::null())
            .stdout(File::create(&console)?)
            .stderr(File::create(here.join("errors"))?);
        let status = qemu.status().map_err(|error| Unmet(format!("start timeout: {error}")))?;
        let bytes = std::fs::read(&console)?;
        let mut output = ZooOutput::parse(&String::from_utf8_lossy(&bytes));
        let errors = std::fs::read_to_string(here.join("errors"))?;
        if let Some(line) = refusal(machine.cpu, &errors) {
            return Err(Unmet(line.to_owned()).into());
        }
        if !status.success() {
            output.is_complete = false;
            output.others.push(format!("QEMU ended with {status}: {errors}"));
        }
        for number in 0..machine.disks.len() {
            std::fs::remove_file(here.join(format!("disk{number}")))?;
        }
        Ok(Booted { output, release: release.trim().to_owned() })
    }
}

/// The address up to which a kernel for x86 unpacks itself: the fields `pref_address` and
/// `init_size` of Documentation/x86/boot.rst. `None` for other kernels.
fn unpacked_mib(kernel: &Path) -> Result<Option<u32>> {
    let mut head = [0; 0x264];
    File::open(kernel)?.read_exact(&mut head)?;
    if &head[0x202..0x206] != b"HdrS" {
        return Ok(None);
    }
    let field = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| head[at + byte]));
    Ok(Some((field(0x258) + field(0x260)).div_ceil(1 << 20)))
}

/// The line with which QEMU refuses a CPU's `+feature`: it then boots without.
fn refusal<'e>(cpu: &str, errors: &'e str) -> Option<&'e str> {
    let mut asked = cpu.split(',').filter_map(|word| word.strip_prefix('+'));
    let refuses = |line: &&str, feature: &str| {
        line.contains("doesn't support requested feature") && line.contains(feature)
    };
    asked.find_map(|feature| errors.lines().find(|line| refuses(line, feature)))
}

/// QEMU with the arguments of a machine. Not KVM: the CPUs shall be what they are called.
fn command(machine: &ZooMachine) -> Command {
    let mut qemu = Command::new("timeout");
    qemu.args(["--foreground", "-k", "5", &SECONDS_MAX.to_string()]);
    qemu.arg(format!("qemu-system-{}", machine.kernel.architecture.name()));
    // One thread for all CPUs: with several, a CPU may run the breakpoint by which the kernel
    // patches its code, and the kernel stops ("Oops: int3").
    qemu.args([
        "-accel",
        "tcg,thread=single",
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
    ]);
    qemu.args(["-serial", "stdio", "-no-reboot"]).args(machine.qemu());
    qemu.args(["-append", &machine.command_line()]);
    qemu
}

fn copy(from: &Path, names: &[&str], to: &Path) -> Result<()> {
    names.iter().try_for_each(|name| {
        std::fs::copy(from.join(name), to.join(name)).map(drop).context((*name).to_owned())
    })
}

/// An image of a disk, with a file system that has the files of a folder.
fn make_disk(disk: &ZooDisk, image: &Path, folder: Option<&PathBuf>) -> Result<()> {
    File::create(image)?.set_len(DISK_BYTES)?;
    let Some(kind) = disk.file_system else { return Ok(()) };
    let sector = disk.sector_bytes.to_string();
    let size = format!("size={sector}");
    let mut words: Vec<&str> = match kind {
        "ext4" => vec!["-q", "-b", "4096"],
        "xfs" => vec!["-q", "-s", &size],
        "vfat" => vec!["-S", &sector],
        _ => vec!["-q"],
    };
    let folder = folder.map(|folder| folder.display().to_string());
    if let Some(folder) = &folder {
        ensure!(kind == "ext4", "a disk with files has ext4");
        words.extend(["-d", folder]);
    }
    // Programs of an administrator.
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut make = Command::new("env");
    make.arg(format!("PATH={path}")).arg(format!("mkfs.{kind}")).args(words).arg(image);
    require(&mut make)
}

/// Runs a program.
///
/// # Errors
/// [`Unmet`] with its last line if it fails.
fn require(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| program.clone())?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().last().unwrap_or_default().to_owned();
    Err(Unmet(if last.is_empty() { format!("{program}: {}", output.status) } else { last }).into())
}
