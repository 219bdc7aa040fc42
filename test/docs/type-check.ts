import { join, resolve } from "node:path";
import ts from "typescript";
import { type Block, ROOT } from "./blocks.js";

/** A mistake of the compiler's, at its line of the page. */
export interface TypeFault {
  page: string;
  line: number;
  message: string;
}

/** Checks all blocks in one go, each as a module of its own behind its context. Names of the package need no import in a fragment. */
export function typeFaults(blocks: readonly Block[]): TypeFault[] {
  const { config } = ts.readConfigFile(join(ROOT, "tsconfig.json"), ts.sys.readFile);
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, ROOT);
  // Fragments import types and values in one statement.
  options.verbatimModuleSyntax = false;
  options.paths = { hindsearch: [resolve(ROOT, "lib/index.ts")] };
  const names = exportedNames(options);
  const modules = new Map(
    blocks.map((block, i) => [join(ROOT, "docs", `block-${i}.ts`), moduleOf(block, names)]),
  );
  const program = ts.createProgram({
    rootNames: [...modules.keys()],
    options,
    host: hostWith(options, new Map([...modules].map(([file, { text }]) => [file, text]))),
  });
  return [...modules].flatMap(([file, { block, linesBefore }]) => {
    const source = program.getSourceFile(file);
    const found = [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)];
    return found.map(({ start = 0, messageText }) => ({
      page: block.page,
      line: block.line + (source?.getLineAndCharacterOfPosition(start).line ?? 0) - linesBefore,
      message: ts.flattenDiagnosticMessageText(messageText, " "),
    }));
  });
}

function moduleOf(block: Block, names: ReadonlySet<string>) {
  const { text, directive } = block;
  const context = directive.kind === "fragment" ? directive.context : "";
  const words = new Set(`${context}\n${text}`.match(/[A-Za-z_$][\w$]*/g));
  const own = declaredNames(`${context}\n${text}`);
  const imported =
    directive.kind === "fragment" ? [...words].filter((word) => names.has(word) && !own.has(word)) : [];
  const imports = imported.length === 0 ? "" : `import { ${imported.join(", ")} } from "hindsearch";\n`;
  const head = `${imports}${context}\n`;
  return { block, text: `${head}${text}\nexport {};\n`, linesBefore: head.split("\n").length - 1 };
}

/** Names that a text imports or declares itself. */
function declaredNames(text: string): Set<string> {
  const names = new Set<string>();
  const source = ts.createSourceFile("block.ts", text, ts.ScriptTarget.ES2022, true);
  const visit = (node: ts.Node): void => {
    if (
      ts.isImportSpecifier(node) ||
      ((ts.isVariableDeclaration(node) || ts.isClassDeclaration(node) || ts.isFunctionDeclaration(node)) &&
        node.name !== undefined &&
        ts.isIdentifier(node.name))
    )
      names.add((node.name as ts.Identifier).text);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return names;
}

function exportedNames(options: ts.CompilerOptions): ReadonlySet<string> {
  const index = resolve(ROOT, "lib/index.ts");
  const source = ts.createSourceFile(
    index,
    ts.sys.readFile(index) ?? "",
    options.target ?? ts.ScriptTarget.ES2022,
  );
  return new Set(
    source.statements.flatMap((statement) =>
      ts.isExportDeclaration(statement) && statement.exportClause && ts.isNamedExports(statement.exportClause)
        ? statement.exportClause.elements.map(({ name }) => name.text)
        : [],
    ),
  );
}

/** The file system, with these files in it. */
function hostWith(options: ts.CompilerOptions, files: ReadonlyMap<string, string>): ts.CompilerHost {
  const host = ts.createCompilerHost(options);
  return {
    ...host,
    fileExists: (file) => files.has(file) || host.fileExists(file),
    readFile: (file) => files.get(file) ?? host.readFile(file),
    getSourceFile: (file, language, ...rest) => {
      const text = files.get(file);
      return text === undefined
        ? host.getSourceFile(file, language, ...rest)
        : ts.createSourceFile(file, text, language, true);
    },
  };
}
