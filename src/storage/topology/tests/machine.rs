//! A recorded machine from a compact text: `/sys`, `/proc`, udev's database, dm tables, zpool's answers, attributes.
//!
//! ```text
//! sata sda 8:0 WDC_WD80EFAX SN1          a rotating SATA disk; also ssd, usb, nvme, virtio, mmc, scsi, loop, nbd
//! part sda1 8:1 2048 1000000             a partition: start and sectors
//! dev md0 9:0 2000000                    a virtual device: sectors
//!   md/level=raid1                       an attribute of the device above
//!   slaves: sda1 sdb1                    links to devices
//!   md/dev-sda1/block -> sda1            one link to a device
//! %file proc/self/mountinfo              a file, until a line `%%`
//! %dm 252:0   %zpool tank   %xattr /mnt/pool/.mergerfs user.mergerfs.branches     likewise
//! ```

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::sys::dm::target;
use crate::sys::dm::{Table, Target};
use crate::topology::ask::Ask;
use crate::topology::mounts;
use crate::topology::roots::Roots;
use crate::topology::{Topology, describe};

pub(super) struct Machine {
    dir: tempfile::TempDir,
    pub(super) roots: Roots,
    answers: Answers,
}

#[derive(Default)]
struct Answers {
    tables: HashMap<(u32, u32), Table>,
    pools: HashMap<String, String>,
    attributes: HashMap<(PathBuf, String), Vec<u8>>,
}

impl Ask for Answers {
    fn dm_table(&self, device: (u32, u32)) -> Result<Table, String> {
        self.tables.get(&device).cloned().ok_or_else(|| "needs privilege".to_owned())
    }
    fn zpool_status(&self, pool: &str) -> Result<String, String> {
        self.pools.get(pool).cloned().ok_or_else(|| "zpool is not installed here".to_owned())
    }
    fn attribute(&self, path: &Path, name: &str) -> Result<Vec<u8>, String> {
        self.attributes
            .get(&(path.to_owned(), name.to_owned()))
            .cloned()
            .ok_or_else(|| "no such attribute".to_owned())
    }
}

impl Machine {
    pub(super) fn new(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots::recorded(dir.path());
        let mut m = Self { dir, roots, answers: Answers::default() };
        for place in ["sys/class/block", "sys/dev/block", "proc/self", "dev", "run/udev/data"] {
            fs::create_dir_all(m.at(place)).unwrap();
        }
        // Links need their targets: devices first, then attributes and links.
        for is_second in [false, true] {
            let mut lines = text.lines();
            let mut device: Option<PathBuf> = None;
            while let Some(line) = lines.next() {
                let line = line.trim_start();
                if let Some(section) = line.strip_prefix('%') {
                    let body: Vec<&str> = lines.by_ref().take_while(|l| l.trim() != "%%").collect();
                    if is_second {
                        m.section(section, &body);
                    }
                } else if !line.is_empty() && !line.starts_with('#') {
                    m.line(line, &mut device, is_second);
                }
            }
        }
        m
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn section(&mut self, head: &str, body: &[&str]) {
        let words: Vec<&str> = head.split_whitespace().collect();
        match words[..] {
            ["file", name] => {
                let lines: Vec<&str> = body.iter().map(|l| l.trim_start()).collect();
                put(&self.at(name), &(lines.join("\n") + "\n"));
            }
            ["dm", number] => {
                let mut targets = Vec::new();
                for line in body {
                    if let Some(status) = line.trim().strip_prefix("status ") {
                        targets.last_mut().map(|t: &mut Target| t.status = Some(status.to_owned())).unwrap();
                        continue;
                    }
                    let mut words = line.trim().splitn(4, ' ');
                    let mut sectors = || words.next().unwrap().parse::<u64>().unwrap() * 512;
                    let (start_bytes, len_bytes) = (sectors(), sectors());
                    let kind = target::parse(words.next().unwrap(), words.next().unwrap_or(""));
                    targets.push(Target { start_bytes, len_bytes, kind, status: None });
                }
                let table = Table { name: String::new(), uuid: String::new(), targets };
                self.answers.tables.insert(number_of(number), table);
            }
            ["zpool", name] => {
                self.answers.pools.insert(name.to_owned(), body.join("\n"));
            }
            ["xattr", path, name] => {
                let value = body.join("\n").trim().as_bytes().to_vec();
                self.answers.attributes.insert((path.into(), name.to_owned()), value);
            }
            _ => panic!("section {head}"),
        }
    }

    fn line(&self, line: &str, device: &mut Option<PathBuf>, is_second: bool) {
        if let Some((link, names)) = line.split_once(": ").filter(|(l, _)| *l == "slaves") {
            if is_second {
                for name in names.split_whitespace() {
                    self.link(&device.clone().unwrap().join(link).join(name), name);
                }
            }
        } else if let Some((link, name)) = line.split_once(" -> ") {
            if is_second {
                let base =
                    if link.starts_with("sys/") { self.at(link) } else { device.clone().unwrap().join(link) };
                match name.strip_prefix("sys/") {
                    Some(_) => {
                        fs::create_dir_all(base.parent().unwrap()).unwrap();
                        fs::create_dir_all(self.at(name)).unwrap();
                        symlink(self.at(name), base).unwrap();
                    }
                    None => self.link(&base, name),
                }
            }
        } else if let Some((name, value)) = line.split_once('=').filter(|(n, _)| !n.contains(' ')) {
            let base =
                if name.starts_with("sys/") { self.at(name) } else { device.clone().unwrap().join(name) };
            if is_second {
                put(&base, &format!("{value}\n"));
            }
        } else {
            *device = Some(self.device(line, is_second));
        }
    }

    fn link(&self, at: &Path, name: &str) {
        let target = fs::canonicalize(self.at("sys/class/block").join(name)).unwrap();
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        symlink(target, at).unwrap();
    }

    fn device(&self, line: &str, is_second: bool) -> PathBuf {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (kind, name, number) = (words[0], words[1], words[2]);
        let text = |i: usize| words.get(i).unwrap_or(&"").replace('_', " ");
        let mut files: Vec<(&str, String)> = vec![("size", "15628053168".into())];
        let place = match kind {
            "sata" | "ssd" => {
                files.push(("device/vendor", "ATA     ".into()));
                files.push(("device/scsi_level", "6".into()));
                format!("pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/{name}")
            }
            "usb" => {
                format!("pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0/block/{name}")
            }
            "scsi" => format!("pci0000:00/0000:00:05.0/virtio2/host2/target2:0:0/2:0:0:0/block/{name}"),
            "sas" => format!(
                "pci0000:00/0000:01:00.0/host1/port-1:0/end_device-1:0/target1:0:0/1:0:0:0/block/{name}"
            ),
            "nvme" => format!("pci0000:00/0000:03:00.0/nvme/nvme0/{name}"),
            "virtio" => format!("pci0000:00/0000:00:04.0/virtio1/block/{name}"),
            "mmc" => format!("platform/mmc0/mmc0:0001/block/{name}"),
            "part" => {
                let disk = name.trim_end_matches(|c: char| c.is_ascii_digit());
                let disk = disk
                    .strip_suffix('p')
                    .filter(|d| d.starts_with("nvme") || d.starts_with("mmc"))
                    .unwrap_or(disk);
                let whole = fs::canonicalize(self.at("sys/class/block").join(disk)).unwrap();
                let place = whole.strip_prefix(fs::canonicalize(self.at("sys/devices")).unwrap()).unwrap();
                files = vec![("start", text(3)), ("size", text(4)), ("partition", "1".into())];
                format!("{}/{name}", place.display())
            }
            "dev" | "loop" | "nbd" => {
                files = vec![("size", if text(3).is_empty() { "2000000".into() } else { text(3) })];
                format!("virtual/block/{name}")
            }
            other => panic!("kind {other}"),
        };
        let dir = self.at("sys/devices").join(place);
        if is_second {
            return dir;
        }
        if !matches!(kind, "part" | "dev" | "loop" | "nbd") {
            let turns = matches!(kind, "sata" | "usb" | "sas");
            files.push(("queue/rotational", if turns { "1" } else { "0" }.into()));
            files.push(("queue/read_ahead_kb", "128".into()));
            if words.len() > 3 {
                files.push((if kind == "mmc" { "device/name" } else { "device/model" }, text(3)));
            }
            if words.len() > 4 {
                files.push((if kind == "virtio" { "serial" } else { "device/serial" }, text(4)));
            }
        }
        files.push(("dev", number.into()));
        for (file, value) in files {
            put(&dir.join(file), &format!("{value}\n"));
        }
        for link in [format!("sys/class/block/{name}"), format!("sys/dev/block/{number}")] {
            symlink(&dir, self.at(&link)).unwrap();
        }
        dir
    }

    /// The topology of a path, by its name.
    pub(super) fn topology(&self, path: &str) -> Topology {
        self.look(path, false)
    }

    pub(super) fn look(&self, path: &str, is_file: bool) -> Topology {
        let table = self.roots.mounts().unwrap();
        let mount = mounts::of_path(&table, Path::new(path)).unwrap();
        describe(&self.roots, &self.answers, mount, Path::new(path), Path::new(path), is_file)
    }

    /// As `topology`, of a block device that is mounted at `/m`.
    pub(super) fn of_device(&self, number: &str) -> Topology {
        put(&self.at("proc/self/mountinfo"), &format!("1 0 {number} / /m rw - ext4 /dev/x rw\n"));
        self.topology("/m/film.mkv")
    }
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn number_of(text: &str) -> (u32, u32) {
    let (major, minor) = text.split_once(':').unwrap();
    (major.parse().unwrap(), minor.parse().unwrap())
}

/// A tree in one line: `md:raid1[disk:sda disk:sdb]`, with `!` behind a degraded node and `-` before a dead member.
pub(super) fn drawn(node: &crate::topology::Node) -> String {
    let mut out = if node.is_alive() { String::new() } else { "-".to_owned() };
    out.push_str(&node.kind);
    if let Some(level) = &node.level {
        out.push(':');
        out.push_str(level);
    }
    if node.children.is_empty() {
        out.push(':');
        out.push_str(&node.name);
    }
    if node.degraded {
        out.push('!');
    }
    if let Some(role) = node.role.as_deref().filter(|r| !matches!(*r, "data" | "mirror")) {
        out.push('@');
        out.push_str(role);
    }
    if !node.children.is_empty() {
        let children: Vec<String> = node.children.iter().map(drawn).collect();
        out.push('[');
        out.push_str(&children.join(" "));
        out.push(']');
    }
    out
}
