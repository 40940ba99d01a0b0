package prio

import "runtime/debug"

// Release is the version of which CHANGELOG.md tells first.
const Release = "1.0.0"

// Version is what a program says of itself: what the linker was told, else the release and the revision that it was built of.
func Version(linked string) string {
	if linked != "" {
		return linked
	}
	info, known := debug.ReadBuildInfo()
	if !known {
		return Release
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	return versionOf(settings["vcs.revision"], settings["vcs.modified"] == "true")
}

// versionOf is the release and a revision, as the Makefile writes it.
func versionOf(revision string, modified bool) string {
	version := Release
	if revision != "" {
		version += "+g" + revision[:min(len(revision), 12)]
	}
	if modified {
		version += ".dirty"
	}
	return version
}
