// Browsers start no worker for a page from a disk. A hidden frame does its work there, so that the
// search works in a copy of the site that is opened without a server.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.body.appendChild(document.createElement("iframe"));
      frame.hidden = true;
      this.loaded = new Promise((resolve) => frame.addEventListener("load", resolve));
      this.inside = frame.contentWindow;
      frame.contentDocument.open();
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", {data}));
      frame.contentDocument.write(`<script src="${url}"></` + "script>");
      frame.contentDocument.close();
    }

    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", {data})));
    }
  };
}
