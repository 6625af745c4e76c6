"use strict";
for (const command of document.querySelectorAll("pre.command")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(command.textContent);
    button.textContent = "copied";
  });
  command.before(button);
}
