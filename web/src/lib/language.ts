/** Languages that a viewer can choose from, by name. */

import { languageName } from "./item";

/** ISO 639-2/T of what films are most often spoken and subtitled in; a file may have any other. */
const CODES = [
  "ara", "bul", "cat", "ces", "dan", "deu", "ell", "eng", "est", "eus", "fas", "fin", "fra", "glg", "heb", "hin", "hrv", "hun",
  "ind", "isl", "ita", "jpn", "kor", "lav", "lit", "msa", "nld", "nob", "pol", "por", "ron", "rus", "slk", "slv", "spa", "srp",
  "swe", "tam", "tel", "tha", "tur", "ukr", "vie", "zho",
] as const;

export interface LanguageChoice {
  code: string;
  name: string;
}

/** By name; a code that is chosen already is there too, whatever it is. */
export function languageChoices(chosen: readonly string[] = []): LanguageChoice[] {
  return [...new Set([...CODES, ...chosen])]
    .map((code) => ({ code, name: languageName(code) }))
    .sort((a, b) => a.name.localeCompare(b.name, "en"));
}

/** Puts a language at a place of a list of preference; an empty one takes the place away, and none is there twice. */
export function placeLanguage(list: readonly string[], at: number, code: string): string[] {
  const out = list.slice();
  if (code === "") out.splice(at, 1);
  else out[at] = code;
  return out.filter((c, i) => Boolean(c) && out.indexOf(c) === i);
}
