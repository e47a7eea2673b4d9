// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs of tests/vectors/targets.txt: each is made, and judged as the library judges it.
use super::*;
use reader::Vector;
use std::fs::Permissions;
use std::os::unix::fs::FileExt;

mod reader {
    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/reader.rs"));
}

/// The values of all details with this name.
fn details<'a>(vector: &'a Vector, name: &'a str) -> impl Iterator<Item = &'a str> {
    vector.words[3..].iter().filter_map(move |word| word.strip_prefix(name)?.strip_prefix('='))
}

fn detail<'a>(vector: &'a Vector, name: &'a str) -> Option<&'a str> {
    details(vector, name).next()
}

fn own() -> Elf {
    elf::read(Path::new("/proc/self/exe")).unwrap().unwrap()
}

/// The program's loader, by the detail of that name.
fn loader(directory: &Path, detail: &str) -> String {
    let own = own().loader.unwrap();
    let name = Path::new(&own).file_name().unwrap();
    match detail {
        "own" => own,
        "lost" => Path::new("/nonexistent").join(name).display().to_string(),
        "beside" => {
            let path = directory.join(name);
            fs::write(&path, "").unwrap();
            path.display().to_string()
        }
        path => path.to_owned(),
    }
}

/// A file of 64 bits that is being made: headers, then what segments have.
struct Image {
    header: [u8; 64],
    is_of_other_order: bool,
    segments: Vec<[u64; 3]>,
    rest: Vec<u8>,
}

impl Image {
    /// Where the content of segments begins: there are four at most.
    const BEGIN: u64 = 64 + 4 * 56;

    fn new() -> Self {
        let mut header = [0; 64];
        let own = File::open("/proc/self/exe").unwrap();
        own.read_exact_at(&mut header[..24], 0).unwrap();
        header[32..40].copy_from_slice(&64u64.to_ne_bytes());
        header[54..56].copy_from_slice(&56u16.to_ne_bytes());
        Self { header, is_of_other_order: false, segments: Vec::new(), rest: Vec::new() }
    }

    /// The offset of these bytes in the file.
    fn add(&mut self, bytes: &[u8]) -> u64 {
        let at = Self::BEGIN + self.rest.len() as u64;
        self.rest.extend(bytes);
        self.rest.resize(self.rest.len().next_multiple_of(8), 0);
        at
    }

    fn add_segment(&mut self, kind: u32, bytes: &[u8]) {
        let at = self.add(bytes);
        self.segments.push([kind.into(), at, bytes.len() as u64]);
    }

    fn bytes(mut self) -> Vec<u8> {
        if self.is_of_other_order {
            return self.header.to_vec();
        }
        self.segments.push([1, 0, Self::BEGIN + self.rest.len() as u64]); // PT_LOAD
        self.header[56..58].copy_from_slice(&(self.segments.len() as u16).to_ne_bytes());
        let mut bytes = self.header.to_vec();
        for [kind, at, size] in self.segments {
            for word in [kind, at, at, 0, size, size, 0] {
                bytes.extend(word.to_ne_bytes());
            }
        }
        bytes.resize(Self::BEGIN as usize, 0);
        bytes.extend(self.rest);
        bytes
    }
}

fn write_elf(path: &Path, vector: &Vector) {
    let mut image = Image::new();
    if detail(vector, "class").is_some() {
        image.header[4] ^= 1 ^ 2;
    }
    if detail(vector, "order").is_some() {
        image.header[5] ^= 1 ^ 2;
        image.header[32..40].fill(0);
        image.is_of_other_order = true;
    }
    if detail(vector, "machine").is_some() {
        image.header[18..20].copy_from_slice(&2u16.to_ne_bytes()); // EM_SPARC
    }
    if let Some(detail) = detail(vector, "loader") {
        let loader = loader(path.parent().unwrap(), detail);
        image.add_segment(3, format!("{loader}\0").as_bytes()); // PT_INTERP
    }
    if let Some(owner) = detail(vector, "note") {
        let mut note = Vec::new();
        for word in [owner.len() as u32 + 1, 0, 1] {
            note.extend(word.to_ne_bytes());
        }
        note.extend(owner.bytes());
        note.resize((note.len() + 1).next_multiple_of(4), 0);
        image.add_segment(4, &note); // PT_NOTE
    }
    let mut texts = vec![0];
    let mut entries = Vec::new();
    let needed = details(vector, "needs").map(|name| (1, name)); // DT_NEEDED
    for (tag, name) in detail(vector, "name").map(|name| (14, name)).into_iter().chain(needed) {
        entries.push([tag, texts.len() as u64]); // DT_SONAME or DT_NEEDED
        texts.extend(name.bytes().chain([0]));
    }
    entries.push([5, image.add(&texts)]); // DT_STRTAB
    entries.push([0, 0]);
    let entries: Vec<u8> = entries.into_iter().flatten().flat_map(u64::to_ne_bytes).collect();
    image.add_segment(2, &entries); // PT_DYNAMIC
    fs::write(path, image.bytes()).unwrap();
}

/// Makes the files of a vector. The file to be executed.
fn make(directory: &Path, vector: &Vector) -> PathBuf {
    let path = directory.join("program");
    for name in details(vector, "beside") {
        fs::write(directory.join(name), "").unwrap();
    }
    match vector.word(2) {
        "missing" => {}
        "directory" => fs::create_dir(&path).unwrap(),
        "bytes" => {
            let ordinary = env::current_exe().unwrap().display().to_string();
            fs::write(&path, detail(vector, "contents").unwrap().replace('@', &ordinary)).unwrap();
        }
        "elf" => write_elf(&path, vector),
        other => panic!("{}: {other}", vector.place),
    }
    let number = |name: &str| detail(vector, name).map(|id| id.parse().unwrap());
    if vector.word(2) != "missing" {
        std::os::unix::fs::chown(&path, number("owner"), number("group")).unwrap();
        let mode = u32::from_str_radix(detail(vector, "mode").unwrap_or("755"), 8).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
    (0..number("scripts").unwrap_or(0)).fold(path, |path, number| {
        let script = directory.join(format!("script{number}"));
        fs::write(&script, format!("#!{}\n", path.display())).unwrap();
        fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
        script
    })
}

#[test]
fn programs_are_judged_as_in_the_library() {
    let libraries = [("/lib/libtek.so".into(), own())];
    for vector in reader::read("targets.txt") {
        let directory = tempfile::tempdir().unwrap();
        let gives_privileges =
            ["owner", "group"].iter().any(|name| detail(&vector, name).is_some());
        let can_give = nix::unistd::geteuid().is_root() && !gains_nothing(directory.path());
        if gives_privileges && !can_give {
            continue;
        }
        let target = examine(make(directory.path(), &vector).as_os_str(), &libraries);
        let reason = target.as_ref().and_then(|target| target.reason);
        let uthread_reason = target.as_ref().and_then(|target| target.uthread_reason);
        let name = |reason: Option<Reason>| reason.map_or("fits", |reason| reason.kind.name);
        assert_eq!(
            [name(reason), name(reason.or(uthread_reason))],
            [vector.word(0), vector.word(1)],
            "{}",
            vector.place
        );
    }
}
