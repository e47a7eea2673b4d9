// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of a process, as a profile of the stacks of its program.
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tek_abi::{
    printable, until_nul, Module, Side, TableHeader, FLAG_MAIN, FLAG_NAMED, LABEL_NAME, LABEL_ROLE,
    STACK_EXPLICIT, STACK_OVERFLOWED, STACK_OWN, STACK_TUNED, STACK_UNCLEAN,
};
use tek_model::{place_of, Error, Functions, StackUse, Table, Thread};
use tek_stack::{Key, Kind, Label, Place, Profile, Program, MOST_KINDS};

/// The knowledge about several programs.
pub type Learnt = BTreeMap<Program, Profile>;

/// Most programs with a profile; a run that starts more ignores the rest.
const MOST_PROGRAMS: usize = 1000;

/// Adds to a program's profile; false if there is no room for another program.
pub fn add(learnt: &mut Learnt, program: &Program, profile: &Profile) -> bool {
    if !learnt.contains_key(program) && learnt.len() >= MOST_PROGRAMS {
        return false;
    }
    let known = learnt.entry(program.clone()).or_default();
    known.merge(profile);
    known.keep(MOST_KINDS);
    true
}

/// The profile from a table in a file; `None` if it has none.
pub fn from_table(
    table: &mut Table,
    functions: &mut Functions,
) -> Result<Option<(Program, Profile)>, Error> {
    let header = table.header()?;
    if header.kinds == 0 {
        return Ok(None);
    }
    let kinds = table.kinds()?;
    let modules = table.modules()?;
    let threads = table.snapshot()?.threads;
    let threads = threads.iter().map(|thread| {
        let Thread { record, side, .. } = thread;
        if side.stack_flags & STACK_OVERFLOWED != 0 {
            let bytes = u64::from(record.stack_pages) * u64::from(header.page_bytes);
            return (thread, Some(StackUse { peak_bytes: Some(bytes), bound_bytes: bytes }));
        }
        (thread, StackUse::of(record, header.page_bytes))
    });
    let source = Source { header: &header, modules: &modules };
    Ok(source.learn(&kinds, threads, functions).filter(|(_, profile)| !profile.kinds.is_empty()))
}

/// A process that had its table read.
pub struct Source<'a> {
    /// Its header.
    pub header: &'a TableHeader,
    /// Its modules.
    pub modules: &'a [Module],
}

impl Source<'_> {
    /// The program and its profile: from the kinds that the process measured, and from the threads
    /// at the time when its table was read. `None` if the program has no name.
    pub fn learn<'t>(
        &self,
        kinds: &[(u16, tek_abi::Kind)],
        threads: impl Iterator<Item = (&'t Thread, Option<StackUse>)>,
        functions: &mut Functions,
    ) -> Option<(Program, Profile)> {
        let program = self.program()?;
        let mut profile = Profile::new(self.program_name());
        let mut keys = HashMap::new();
        let listed: HashSet<_> = kinds.iter().map(|(number, _)| *number).collect();
        let is_known = |kind: &tek_abi::Kind| {
            kind.threads != 0 || kind.overflows != 0 || kind.bound_bytes != 0
        };
        for (number, kind) in kinds.iter().filter(|(_, kind)| is_known(kind)) {
            let Some(key) = self.key(kind.function, kind.call_site, label(kind)) else { continue };
            profile.add(
                key.clone(),
                &Kind {
                    bound: kind.bound_bytes.into(),
                    peak: kind.peak_bytes.into(),
                    stack: kind.stack_bytes,
                    overflow: kind.overflow_bytes,
                    overflows: kind.overflows.into(),
                    threads: kind.threads.into(),
                    explicit: is_explicit(kind.stack_flags),
                    ..Kind::default()
                },
            );
            keys.insert(*number, (key, kind.function, kind.call_site));
        }
        for (thread, used) in threads {
            let Some(used) = used else { continue };
            let Thread { record, side, .. } = thread;
            // The process's own measurement of such a thread is in its kind: it is to the byte, and
            // considers the stack's earlier owners.
            let overflowed = side.stack_flags & STACK_OVERFLOWED != 0;
            let is_reported = record.bound_pages != 0 && listed.contains(&side.kind) && !overflowed;
            if record.flags & FLAG_MAIN != 0 || is_reported {
                continue;
            }
            let page = u64::from(self.header.page_bytes);
            let peak = used.peak_bytes.unwrap_or(0);
            let mut own = Kind {
                bound: bound_of(side, used),
                peak,
                stack: u64::from(record.stack_pages) * page,
                explicit: is_explicit(side.stack_flags),
                ..Kind::default()
            };
            let of_kind = keys.get(&side.kind).map(|(key, ..)| key);
            match of_kind {
                Some(key) if !overflowed || key.label != Label::None => {
                    profile.add(key.clone(), &own);
                }
                _ => {
                    let (function, call_site) = (record.start_routine, side.call_site);
                    let Some(key) = self.key(function, call_site, label_of(thread)) else {
                        continue;
                    };
                    own.threads = 1;
                    if overflowed {
                        let bare = Key { label: Label::None, ..key.clone() };
                        let counted = of_kind == Some(&bare);
                        (own.overflow, own.overflows) = take_overflow(&mut profile, &bare, counted);
                    }
                    profile.add(key, &own);
                }
            }
        }
        for (key, kind) in &mut profile.kinds {
            // All of them were seen in one run.
            kind.runs = 1;
            kind.least = kind.bound;
            self.name(key, kind, functions);
        }
        Some((program, profile))
    }

    /// The program, or the script that it runs: the name that people use.
    fn program_name(&self) -> String {
        let program = printable(&self.header.program);
        // A script has no addresses.
        let script = self.program_module().filter(|module| module.start == module.end);
        let Some(script) = script.map(|module| printable(&module.path)) else { return program };
        if script == "-c" {
            return format!("{program} -c");
        }
        let name = script.strip_prefix("-m ").or(script.rsplit('/').next());
        name.map_or(program, str::to_owned)
    }

    fn program_module(&self) -> Option<&Module> {
        self.modules.get((self.header.program_module as usize).checked_sub(1)?)
    }

    fn program(&self) -> Option<Program> {
        if let Some(module) = self.program_module() {
            let program = Program::new(build_id(module), until_nul(&module.path));
            return Program::parse(&program.to_string());
        }
        let name = until_nul(&self.header.program);
        Program::parse(&Program::new(&[], name).to_string())
    }

    fn key(&self, function: u64, call_site: u64, label: Label) -> Option<Key> {
        Some(Key { function: self.place(function)?, caller: self.place(call_site), label })
    }

    fn place(&self, address: u64) -> Option<Place> {
        if address == 0 {
            return None;
        }
        let (module, offset) = place_of(self.modules, address)?;
        let module = Place::module(build_id(module), until_nul(&module.path));
        (module != "@").then_some(Place { module, offset })
    }

    /// Names for people.
    fn name(&self, key: &Key, kind: &mut Kind, functions: &mut Functions) {
        kind.symbol = self.name_of(&key.function, functions);
        kind.creator = key.caller.as_ref().and_then(|caller| self.name_of(caller, functions));
        kind.file = self.module_of(&key.function).and_then(|module| {
            let path = Path::new(OsStr::from_bytes(until_nul(&module.path)));
            Some(printable(path.file_name()?.as_bytes()))
        });
    }

    fn name_of(&self, place: &Place, functions: &mut Functions) -> Option<String> {
        let address = self.module_of(place)?.bias.wrapping_add(place.offset);
        functions.name(self.modules, address)
    }

    fn module_of(&self, place: &Place) -> Option<&Module> {
        self.modules.iter().rfind(|module| {
            Place::module(build_id(module), until_nul(&module.path)) == place.module
        })
    }
}

/// A thread that its overflow killed was not measured, or was `counted` before it had a label. So
/// the process noted the overflow for threads without one.
fn take_overflow(profile: &mut Profile, bare: &Key, counted: bool) -> (u64, u64) {
    let Some(kind) = profile.kinds.get_mut(bare) else { return (0, 0) };
    kind.threads = kind.threads.saturating_sub(counted.into());
    if kind.overflows == 0 {
        return (0, 0);
    }
    let bytes = kind.overflow;
    kind.overflows -= 1;
    if kind.overflows == 0 {
        kind.overflow = 0;
    }
    if kind.overflows == 0 && kind.threads == 0 {
        profile.kinds.remove(bare);
    }
    (bytes, 1)
}

fn build_id(module: &Module) -> &[u8] {
    &module.build_id[..module.build_id.len().min(module.build_id_bytes as usize)]
}

fn label(kind: &tek_abi::Kind) -> Label {
    let text = until_nul(&kind.label).to_vec();
    match kind.label_is {
        LABEL_NAME => Label::Name(text),
        LABEL_ROLE => Label::Role(text),
        _ => Label::None,
    }
}

/// Whether the program chose the size, or gave the memory.
fn is_explicit(stack_flags: u8) -> bool {
    stack_flags & (STACK_EXPLICIT | STACK_OWN) != 0
}

/// The use to learn from a bound. On a fitted stack with data of earlier owners the bound may be
/// the whole stack: learning it would make the stacks larger in each run.
fn bound_of(side: &Side, used: StackUse) -> u64 {
    const PERHAPS_ALL: u8 = STACK_TUNED | STACK_UNCLEAN;
    match used.peak_bytes {
        Some(peak) if side.stack_flags & PERHAPS_ALL == PERHAPS_ALL => peak,
        _ => used.bound_bytes,
    }
}

/// The label of a thread that has no kind yet.
fn label_of(thread: &Thread) -> Label {
    let Thread { record, side, .. } = thread;
    if record.role_bytes != 0 {
        return Label::Role(until_nul(&side.role).to_vec());
    }
    if record.flags & FLAG_NAMED == 0 {
        return Label::None;
    }
    Label::of_name(until_nul(&side.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    fn module(path: &str, start: u64, build_id: &[u8]) -> Module {
        let mut module = Module::new_zeroed();
        (module.start, module.end, module.bias) = (start, start + 0x1000, start);
        module.path[..path.len()].copy_from_slice(path.as_bytes());
        module.build_id[..build_id.len()].copy_from_slice(build_id);
        module.build_id_bytes = build_id.len() as u32;
        module
    }

    fn header() -> TableHeader {
        let mut header = TableHeader::new_zeroed();
        header.program[..6].copy_from_slice(b"fridge");
        header.page_bytes = 4096;
        header
    }

    fn kind(function: u64) -> tek_abi::Kind {
        tek_abi::Kind { function, threads: 3, bound_bytes: 8192, ..tek_abi::Kind::new_zeroed() }
    }

    #[test]
    fn kinds_become_those_of_the_program_and_lie_where_its_files_have_them() {
        let modules = [module("/x/lib.so", 0x10_0000, &[]), module("/bin/fridge", 0x20_0000, &[1])];
        let header = TableHeader { program_module: 2, ..header() };
        let source = Source { header: &header, modules: &modules };
        let kinds = [(1, kind(0x10_0020)), (2, kind(0x20_0030)), (3, kind(0x99))];
        let (program, profile) =
            source.learn(&kinds, std::iter::empty(), &mut Functions::default()).unwrap();
        assert_eq!((program.to_string().as_str(), profile.program.as_str()), ("01", "fridge"));
        let places: Vec<_> = profile.kinds.keys().map(|key| key.function.to_string()).collect();
        assert_eq!(places, ["01+0x30", "@lib.so+0x20"]);
        let kind = profile.kinds.values().next().unwrap();
        assert_eq!((kind.threads, kind.runs, kind.bound, kind.least), (3, 1, 8192, 8192));
        assert_eq!(kind.symbol.as_deref(), Some("fridge+0x30"));
        assert_eq!(kind.file.as_deref(), Some("fridge"));
    }

    #[test]
    fn a_thread_of_a_kind_is_counted_once_and_one_of_none_makes_its_own() {
        let modules = [module("/bin/fridge", 0x20_0000, &[1])];
        let header = TableHeader { program_module: 1, ..header() };
        let mut thread = Thread { slot: 0, record: Default::default(), side: Default::default() };
        thread.record.start_routine = 0x20_0030;
        thread.record.flags = FLAG_NAMED;
        thread.side.name[..3].copy_from_slice(b"ui7");
        let mut counted = thread;
        counted.side.kind = 1;
        let used = |bound_bytes| Some(StackUse { peak_bytes: Some(5), bound_bytes });
        let threads = [(&thread, used(100)), (&counted, used(20_000)), (&thread, None)];
        let source = Source { header: &header, modules: &modules };
        let (_, profile) = source
            .learn(&[(1, kind(0x20_0030))], threads.into_iter(), &mut Functions::default())
            .unwrap();
        let reported: Vec<_> = profile
            .kinds
            .iter()
            .map(|(key, kind)| (key.label.clone(), kind.threads, kind.bound))
            .collect();
        assert_eq!(reported, [(Label::None, 3, 20_000), (Label::Name(b"ui#".to_vec()), 1, 100)]);
    }

    #[test]
    fn what_a_process_measured_of_a_thread_of_a_kind_is_reported_by_the_kind_alone() {
        let modules = [module("/bin/fridge", 0x20_0000, &[1])];
        let header = TableHeader { program_module: 1, ..header() };
        let mut thread = Thread { slot: 0, record: Default::default(), side: Default::default() };
        thread.record.start_routine = 0x20_0040;
        (thread.record.bound_pages, thread.record.stack_pages) = (25, 25);
        thread.side.stack_flags = STACK_TUNED | STACK_UNCLEAN;
        let mut reported = thread;
        reported.side.kind = 1;
        reported.record.start_routine = 0x20_0030;
        let used = Some(StackUse { peak_bytes: Some(5000), bound_bytes: 102_400 });
        let source = Source { header: &header, modules: &modules };
        let threads = [(&reported, used), (&thread, used)].into_iter();
        let (_, profile) =
            source.learn(&[(1, kind(0x20_0030))], threads, &mut Functions::default()).unwrap();
        let reported: Vec<_> =
            profile.kinds.values().map(|kind| (kind.threads, kind.bound, kind.peak)).collect();
        assert_eq!(reported, [(3, 8192, 0), (1, 5000, 5000)]);
    }

    #[test]
    fn what_overflowed_is_the_kind_that_the_thread_had_by_then() {
        let modules = [module("/bin/fridge", 0x20_0000, &[1])];
        let header = TableHeader { program_module: 1, ..header() };
        let mut thread = Thread { slot: 0, record: Default::default(), side: Default::default() };
        thread.record.start_routine = 0x20_0030;
        thread.record.flags = FLAG_NAMED;
        thread.side.name[..2].copy_from_slice(b"ui");
        thread.side.stack_flags = STACK_OVERFLOWED;
        let used = Some(StackUse { peak_bytes: Some(65536), bound_bytes: 65536 });
        for (number, threads) in [(0, 0), (1, 1)] {
            thread.side.kind = number;
            let bare =
                tek_abi::Kind { threads, overflows: 1, overflow_bytes: 65536, ..kind(0x20_0030) };
            let source = Source { header: &header, modules: &modules };
            let (_, profile) = source
                .learn(&[(1, bare)], std::iter::once((&thread, used)), &mut Functions::default())
                .unwrap();
            let (key, kind) = profile.kinds.first_key_value().unwrap();
            assert_eq!((profile.kinds.len(), &key.label), (1, &Label::Name(b"ui".to_vec())));
            assert_eq!((kind.threads, kind.overflows, kind.overflow), (1, 1, 65536));
        }
    }

    #[test]
    fn a_program_of_which_no_file_can_be_named_has_no_profile() {
        let nameless = TableHeader { page_bytes: 4096, ..TableHeader::new_zeroed() };
        let source = Source { header: &nameless, modules: &[] };
        let learnt = source.learn(&[], std::iter::empty(), &mut Functions::default());
        assert_eq!(learnt, None);
        let mut hostile = nameless;
        hostile.program[..4].copy_from_slice(b"../x");
        hostile.program_module = 77;
        let source = Source { header: &hostile, modules: &[] };
        assert_eq!(source.program().unwrap().to_string(), "@x");
    }
}
