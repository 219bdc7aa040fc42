/** Values that may turn up nowhere, and how they are found in whatever form. */

/** Marks at both ends: half a secret is still one. */
const HEAD = "canary-";
const TAIL = "-ende7f3a";

/** A secret for a place; with characters that every encoding changes. */
export const canary = (place: string) => `${HEAD}${place}+/="~é${TAIL}`;
/** The same for headers, which are ASCII. */
export const asciiCanary = (place: string) => `${HEAD}${place}+/="~${TAIL}`;

/** The characters of a text's base64 that do not depend on what stands before and behind it. */
function base64Cores(text: string): string[] {
  return [0, 1, 2].map((offset) => {
    const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(text)]);
    return bytes.toString("base64url").slice(Math.ceil((offset * 8) / 6), Math.floor((bytes.length * 8) / 6));
  });
}

const FORMS = [HEAD, TAIL].flatMap((mark) => [mark, mark.toUpperCase(), ...base64Cores(mark)]);

/** The forms of canaries that stand in a text; base64 in both of its alphabets. */
export function canariesIn(text: string): string[] {
  const plain = text.replaceAll("+", "-").replaceAll("/", "_");
  return FORMS.filter((form) => text.includes(form) || plain.includes(form)).map((form) => {
    const at = Math.max(text.indexOf(form), plain.indexOf(form));
    return `${form} in ${JSON.stringify(text.slice(Math.max(0, at - 120), at + 120))}`;
  });
}
